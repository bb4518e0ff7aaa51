#include "control/peers/plans.h"

#include "control/peers/data.h"
#include "error.h"

static plan_word_t ask_of(const Blinkpeer__PlanAsk *ask)
{
    return (plan_word_t){.number = ask->number,
                         .home = ask->comm_home,
                         .comm = ask->comm_number,
                         .key = ask->key,
                         .collective = ask->collective,
                         .root = ask->root,
                         .peer = ask->peer,
                         .size_class = ask->size_class,
                         .scales_inputs = ask->scales_inputs,
                         .lands_in_slots = ask->lands_in_slots,
                         .wants_bytes = ask->wants_bytes,
                         .offset = ask->offset};
}

static plan_word_t answer_of(const Blinkpeer__Plan *plan)
{
    return (plan_word_t){.is_answer = true,
                         .number = plan->number,
                         .code = plan->code,
                         .text = plan->text,
                         .total_bytes = plan->total_bytes,
                         .offset = plan->offset,
                         .piece = plan->piece.data,
                         .piece_bytes = (uint32_t)plan->piece.len};
}

blink_result_t peer_plan_heard(engine_t *engine, data_endpoint_t *endpoint, const Blinkpeer__Message *message)
{
    bool is_ask = message->body_case == BLINKPEER__MESSAGE__BODY_PLAN_ASK;
    if (!is_ask && message->plan->piece.len > PLAN_PIECE_BYTES)
        return BLINK_FAIL(BLINK_ERR_PROTOCOL, "a piece of a plan of %zu bytes", message->plan->piece.len);
    const plan_word_t word = is_ask ? ask_of(message->plan_ask) : answer_of(message->plan);
    return engine_plan_word(engine, endpoint, &word);
}

static void tell_ask(const data_endpoint_t *endpoint, const plan_word_t *word)
{
    Blinkpeer__Message message = BLINKPEER__MESSAGE__INIT;
    Blinkpeer__PlanAsk ask = BLINKPEER__PLAN_ASK__INIT;
    ask.number = word->number;
    ask.comm_home = word->home;
    ask.comm_number = word->comm;
    ask.key = word->key;
    ask.collective = word->collective;
    ask.root = word->root;
    ask.peer = word->peer;
    ask.size_class = word->size_class;
    ask.scales_inputs = word->scales_inputs;
    ask.lands_in_slots = word->lands_in_slots;
    ask.wants_bytes = word->wants_bytes;
    ask.offset = word->offset;
    message.body_case = BLINKPEER__MESSAGE__BODY_PLAN_ASK;
    message.plan_ask = &ask;
    peer_data_say(endpoint, &message);
}

static void tell_answer(const data_endpoint_t *endpoint, const plan_word_t *word)
{
    Blinkpeer__Message message = BLINKPEER__MESSAGE__INIT;
    Blinkpeer__Plan plan = BLINKPEER__PLAN__INIT;
    plan.number = word->number;
    plan.code = word->code;
    plan.text = (char *)(uintptr_t)(word->text ? word->text : "");
    plan.total_bytes = word->total_bytes;
    plan.offset = word->offset;
    plan.piece = (ProtobufCBinaryData){word->piece_bytes, (uint8_t *)(uintptr_t)word->piece};
    message.body_case = BLINKPEER__MESSAGE__BODY_PLAN;
    message.plan = &plan;
    peer_data_say(endpoint, &message);
}

void peer_plan_tell(const data_endpoint_t *endpoint, const plan_word_t *word)
{
    if (word->is_answer)
        tell_answer(endpoint, word);
    else
        tell_ask(endpoint, word);
}
