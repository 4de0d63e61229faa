
_muster_live() {
    local kind="" word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"
    case "${COMP_WORDS[*]:1:2}" in
        "session show"*|"session explain"*|"session stop"*|"session interrupt"*|"session resume"*) kind=sessions ;;
        wait*|send*|queue*|tail*) kind=sessions ;;
        "task show"*|"task phase"*) kind=tasks ;;
        cat*|ls*|stat*) kind=hosts ;;
    esac
    case "$before" in
        --task) kind=tasks ;;
        --session) kind=sessions ;;
        --follow|-f|--raw|--stderr|--json|--survivors|--hard) ;;
        # The value of a flag.
        -*) kind="" ;;
    esac
    if [[ -n "$kind" && "$word" != -* && "$COMP_CWORD" -gt 1 ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(muster names "$kind" 2>/dev/null)" -- "$word")
        [[ ${#COMPREPLY[@]} -gt 0 ]] && return 0
    fi
    _muster "$@"
}
complete -F _muster_live -o nosort -o bashdefault -o default muster
