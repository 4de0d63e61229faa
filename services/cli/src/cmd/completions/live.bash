
_muster_live() {
    local kind="" word="${COMP_WORDS[COMP_CWORD]}"
    case "${COMP_WORDS[*]:1:2}" in
        "session show"*|"session explain"*|"session stop"*|"session interrupt"*|"session resume"*) kind=sessions ;;
        wait*|send*|queue*|tail*) kind=sessions ;;
        "task show"*|"task phase"*) kind=tasks ;;
        cat*|ls*|stat*) kind=hosts ;;
    esac
    if [[ -n "$kind" && "$word" != -* && "$COMP_CWORD" -gt 1 ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(muster names "$kind" 2>/dev/null)" -- "$word")
        [[ ${#COMPREPLY[@]} -gt 0 ]] && return 0
    fi
    _muster "$@"
}
complete -F _muster_live -o nosort -o bashdefault -o default muster
