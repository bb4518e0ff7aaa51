# Completion of bash for the programs of blinkd. Commands and options come from what a program says with
# --help, so that new ones need nothing here. Installed under the name of each program, by which
# bash-completion finds it.

# _blink_help PROGRAM [COMMAND]: with unbroken lines.
_blink_help() {
    ARGP_HELP_FMT=rmargin=9999 "$@" --help 2>/dev/null </dev/null
}

_blink_commands() { # PROGRAM
    _blink_help "$1" | sed -n '/^Commands /,/^$/s/^  \([a-z]*\) .*/\1/p'
}

_blink_topologies() {
    _blink_help blinkctl topology | sed -n 's/^Built-in topologies: \(.*\)\.$/\1/p'
}

_blink_options() { # PROGRAM [COMMAND]
    _blink_help "$@" | sed -n 's/^ *\(-., \)\{0,1\}\(--[a-z-]*\).*/\2/p'
}

# _blink_option SHORT PROGRAM [COMMAND]: its long name.
_blink_option() {
    _blink_help "${@:2}" | sed -n "s/^ *$1, \(--[a-z-]*\).*/\1/p"
}

_blink_collectives() {
    echo allreduce broadcast reduce allgather reducescatter gather scatter alltoall
    echo allgatherv reducescatterv gatherv scatterv alltoallv sendrecv barrier nop
}

# What an option takes, where it is one of a few words or a file. A test compares the words with --help.
_blink_values() { # PROGRAM OPTION
    case $2 in
    --algorithm)
        echo auto trees shallow-trees ring double-binary-tree blink one-hop binomial recursive-doubling
        echo multicast
        ;;
    --collective) echo allreduce broadcast reduce allgather reducescatter gather scatter alltoall sendrecv ;;
    --datatype)
        echo int8 uint8 int32 uint32 int64 uint64 float16 bfloat16 float32 float64 float8_e4m3 float8_e5m2 all
        ;;
    --device-memory) echo malloc vmm pool ;;
    --format) echo table json dot svg ;;
    --gpu-sharing) echo isolated mps ;;
    --in-place) echo both yes no ;;
    --log-level) echo error warning info debug ;;
    --memory) echo registered malloc ;;
    --op) echo sum prod max min avg premulsum all ;;
    --protocol) echo simple ll ll128 ;;
    --topology) _blink_topologies ;;
    esac
}

_blink_words() { # WORDS CURRENT
    mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W "$1" -- "$2")
}

_blink_files() { # CURRENT
    compopt -o filenames 2>/dev/null
    mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$1")
}

# The value of an option, if that is what comes now.
_blink_value() { # CURRENT OPTION PROGRAM [COMMAND]
    local option=$2
    [[ $option != -[a-zA-Z] ]] || option=$(_blink_option "$option" "${@:3}")
    _blink_words "$(_blink_values "$3" "$option")" "$1"
    case $option in
    --config | --goal | --id-file | --socket | --svg | --topology) _blink_files "$1" ;;
    esac
    ((${#COMPREPLY[@]}))
}

_blink() { # PROGRAM, as bash calls it
    local program=$1 current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local command= commands word
    COMPREPLY=()
    # "--option=value" is three words to bash.
    if [[ $current == = ]]; then
        current=
    elif [[ $before == = ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    commands=$(_blink_commands "$program")
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        [[ $command || $'\n'$commands$'\n' != *$'\n'"$word"$'\n'* ]] || command=$word
    done
    # shellcheck disable=SC2086 # no command is no word
    if [[ $before == -* ]] && _blink_value "$current" "$before" "$program" $command; then
        return
    elif [[ $current == -* ]]; then
        _blink_words "$(_blink_options "$program" $command)" "$current"
    elif [[ $command == topology ]]; then
        _blink_words "$(_blink_topologies)" "$current"
        _blink_files "$current"
    elif [[ ! $command ]]; then
        _blink_words "$commands" "$current"
        [[ ${program##*/} != blink-perf ]] || _blink_words "$(_blink_collectives)" "$current"
    fi
}

# Programs that start others.
_blink_starter() {
    local first=1
    while [[ $1 == *blinkrun && $first -lt $COMP_CWORD && ${COMP_WORDS[first]} == -* ]]; do
        [[ ${COMP_WORDS[first]} != @(-n|--ranks|--hosts|--ssh|--name) ]] || first=$((first + 1))
        [[ ${COMP_WORDS[first + 1]} != = ]] || first=$((first + 2))
        first=$((first + 1))
    done
    if [[ $1 == *blinkrun && $first -ge $COMP_CWORD && ${COMP_WORDS[COMP_CWORD]} == -* ]]; then
        _blink "$1"
    else
        _command_offset $first
    fi
}

complete -F _blink blinkd blinkctl blink-perf
complete -F _blink_starter blinkrun blink-nccl-run blink-mpi-run
