autoload -Uz bashcompinit && bashcompinit
_seriatim_queues() {
  "$1" queues 2>/dev/null | LC_ALL=C awk 'NR > 1 && $1 ~ /^[A-Za-z0-9_.:@+=,\/\200-\377-]+$/ { print $1 }'
}
_seriatim() {
  local cur=${COMP_WORDS[COMP_CWORD]} verb='' words='' more='' at
  for ((at = 1; at < COMP_CWORD; at++)); do
    case " server push pop stats queues nodes explain delete pause resume dead scheduled import reshard check web outbox completion man version help " in *" ${COMP_WORDS[at]} "*) verb=${COMP_WORDS[at]}; break ;; esac
  done
  case $verb in
    server) words='-r --require -C --config -c --threads -p --processes -q --queue -t --timeout -e --environment -v --verbose --log-format' ;;
    push) words='--create --shards --delay --score' ;;
    pop) words='--wait --ack --json'; more=$(_seriatim_queues "$1") ;;
    stats) words='--json'; more=$(_seriatim_queues "$1") ;;
    queues) words='list delete --force --json' ;;
    nodes) words='--json' ;;
    explain) words='--json'; more=$(_seriatim_queues "$1") ;;
    delete) words=''; more=$(_seriatim_queues "$1") ;;
    pause) words=''; more=$(_seriatim_queues "$1") ;;
    resume) words=''; more=$(_seriatim_queues "$1") ;;
    dead) words='list retry delete --all --error --limit --json' ;;
    scheduled) words='list cancel reschedule --id --limit --json' ;;
    import) words='lowkiq --from --watch --create --shards --json' ;;
    reshard) words='--status --no-wait --json'; more=$(_seriatim_queues "$1") ;;
    check) words='--repair --json'; more=$(_seriatim_queues "$1") ;;
    web) words='--bind --port --token --read-only --consume' ;;
    outbox) words='' ;;
    completion) words='bash zsh fish' ;;
    man) words='' ;;
    version) words='' ;;
    help) words=''; more='server push pop stats queues nodes explain delete pause resume dead scheduled import reshard check web outbox completion man version help' ;;
    *) words='server push pop stats queues nodes explain delete pause resume dead scheduled import reshard check web outbox completion man version help -r --require -C --config -c --threads -p --processes -q --queue -t --timeout -e --environment -v --verbose --log-format' ;;
  esac
  COMPREPLY=($(compgen -W "$words $more -r --require -C --config -e --environment -v --verbose --log-format -V --version -h --help" -- "$cur"))
  [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "$cur"))
}
complete -F _seriatim seriatim-lua
