"""Rules of flows, landings and the hosts of the model, each of which test_flow_model.c must miss."""

TEST = "tests/model/test_flow_model.c"
SOURCES = ["daemon/net/flow/flow.c", "daemon/net/flow/landing.c", "daemon/net/flow/standing.c",
           "proto/error.c", "tests/model/hosts.c", "tests/model/streams.c", "tests/model/world.c",
           "tests/model/search.c", TEST]
CONSTANT = ["proto/error.c"]  # of these, what includes nothing that is changed
HEADERS = []  # folders whose headers include one another
INCLUDED = ["daemon", "proto", "tests/model"]
FLAGS = ["-O2", "-DFLOW_WINDOW=3u", "-DSTANDING_MOST=2u"]
ENVIRONMENT = {"FLOW_MODEL_STOP": "1"}

FLOW, LANDING, STANDING = "daemon/net/flow/flow.c", "daemon/net/flow/landing.c", "daemon/net/flow/standing.c"
HOSTS, STREAMS = "tests/model/hosts.c", "tests/model/streams.c"

# What is taken away; the file; what it is there; what it becomes.
MUTANTS = [
    ("the sender's credit is one too high", FLOW,
     "sender->posted >= sender->credit", "sender->posted > sender->credit"),
    ("a sender goes on after its FAIL", FLOW, "if (sender->stopped || ", "if ("),
    ("FAIL forgets what is still read", FLOW, "return sender->posted;", "return sender->done;"),
    ("a sender is settled one move early", FLOW,
     "sender->done == sender->posted &&", "sender->done + 1 >= sender->posted &&"),
    ("what is lost with a fence does not go again", FLOW,
     "sender->again = first_bits(", "sender->again = 0 & first_bits("),
    ("what is lost does not go again after FAIL", FLOW,
     "if (sender->again) {", "if (sender->again && !sender->stopped) {"),
    ("what goes again is counted from the wrong move", FLOW,
     "    sender->again = without_first(sender->again, count);\n", ""),
    ("the first grant is one too many", FLOW,
     "return least(moves, window_of(places));", "return least(moves, window_of(places) + 1);"),
    ("a move that was overtaken counts as come", FLOW,
     "receiver->arrived += count;", "receiver->arrived = sequence + 1;"),
    ("places are free when their moves have come", FLOW,
     "receiver->consumed + least(receiver->places, receiver->moves - receiver->consumed)",
     "receiver->arrived + least(receiver->places, receiver->moves - receiver->arrived)"),
    ("more is granted than the map holds", FLOW,
     "uint32_t limit = least(by_places, by_window);", "uint32_t limit = by_places + 0 * by_window;"),
    ("the last grants are put off for ever", FLOW,
     "limit - receiver->granted < worth", "limit - receiver->granted <= worth"),
    ("a receiver is settled one move early", FLOW,
     "receiver->arrived == receiver->moves", "receiver->arrived + 1 >= receiver->moves"),
    ("a receiver is settled as soon as the end is known", FLOW,
     "receiver->ends && receiver->arrived == receiver->moves", "receiver->ends"),
    ("FAIL is taken for one move less", FLOW,
     "return end_at(receiver, sent);", "return end_at(receiver, sent - (sent > 0));"),
    ("a fence leaves claims behind", FLOW, "receiver->claimed = receiver->came;", ""),
    ("a landing is settled with one flow that is not", LANDING,
     "return landing->unsettled == 0;", "return landing->unsettled <= 1;"),
    ("what comes for an earlier op is taken in", LANDING, "move->sequence > UINT32_MAX / 2 || ", ""),
    ("a standing landing is used again while a move is written to it", HOSTS,
     "drop_from_streams(link, landing);", ""),
    ("a standing landing is used again before its op has ended", HOSTS,
     "uint32_t ended = count_ended(host, comm);", "uint32_t ended = count_ended(host, comm) + 1;"),
    ("rounds are not told apart", STANDING, "k / standing->count, 0", "0 * k, 0"),
    ("an op begins one too early", STANDING,
     "return k < standing->ended + standing->count;", "return k <= standing->ended + standing->count;"),
    ("a sender sends one op too early", "daemon/net/flow/standing.h",
     "return k < ended + count;", "return k <= ended + count;"),
    ("ops begin as they like", HOSTS, "!standing_may_begin(", "false && !standing_may_begin("),
    ("an op ends without the peer's BEGIN", HOSTS,
     " && link_between(flow->from, host)->begun[op]", ""),
    ("a failed op does not wait to be settled", HOSTS,
     "return !lane->lent || landing_is_settled(&lane->landing);", "return true;"),
    ("FAIL tells how far was sent to a standing landing", HOSTS,
     "if (plan_of(op)->standing)\n        sent = 0;", ""),
    ("a fence ends flows of which nothing was sent", HOSTS,
     "else if (lane->sender.posted > 0)", "else"),
    ("immediates that have come are lost with a fence", STREAMS,
     "if (stream->writing && setting.plan->verbs)", "if (stream->writing && 0)"),
    ("a NIC says that it is done before it has written", STREAMS,
     "(setting.plan->fences > 0 || setting.plan->verbs) && ", "0 && "),
]
