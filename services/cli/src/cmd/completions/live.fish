
complete -c muster -n '__fish_seen_subcommand_from show explain stop interrupt resume; and __fish_seen_subcommand_from session' -f -a '(muster names sessions 2>/dev/null)'
complete -c muster -n '__fish_seen_subcommand_from wait send queue tail' -f -a '(muster names sessions 2>/dev/null)'
complete -c muster -n '__fish_seen_subcommand_from show phase; and __fish_seen_subcommand_from task' -f -a '(muster names tasks 2>/dev/null)'
complete -c muster -n '__fish_seen_subcommand_from cat ls stat' -f -a '(muster names hosts 2>/dev/null)'
complete -c muster -n '__fish_prev_arg_in --task' -f -a '(muster names tasks 2>/dev/null)'
complete -c muster -n '__fish_prev_arg_in --session' -f -a '(muster names sessions 2>/dev/null)'
