
_muster_live() {
    local kind=""
    case "${words[2]} ${words[3]}" in
        "session show"|"session explain"|"session stop"|"session interrupt"|"session resume") kind=sessions ;;
        "wait "*|"send "*|"queue "*|"tail "*) kind=sessions ;;
        "task show"|"task phase") kind=tasks ;;
        "cat "*|"ls "*|"stat "*) kind=hosts ;;
    esac
    case "${words[CURRENT-1]}" in
        --task) kind=tasks ;;
        --session) kind=sessions ;;
        --follow|-f|--raw|--stderr|--json|--survivors|--hard) ;;
        -*) kind="" ;;
    esac
    if [[ -n "$kind" && "$PREFIX" != -* && $CURRENT -gt 2 ]]; then
        local -a names
        names=("${(@f)$(muster names $kind 2>/dev/null)}")
        compadd -a names && return 0
    fi
    _muster "$@"
}
compdef _muster_live muster
