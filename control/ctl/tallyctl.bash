# Completion of tallyctl for bash. Names of jobs are asked of the daemon, which has half a second for it.
_tallyctl() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} noun='' verb='' rest=0 i
  local -a ask=(tallyctl --timeout 0.5 -o names)
  case $before in
    -o | --output) mapfile -t COMPREPLY < <(compgen -W 'table json' -- "$word"); return ;;
    --socket | -f | --file) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
    --way) mapfile -t COMPREPLY < <(compgen -W 'both in out' -- "$word"); return ;;
    --instance | --timeout | --interval | --reason | --job | --port | --drop | --every | --frames | --seconds | --bytes) return ;;
  esac
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --socket | --instance) ask+=("${COMP_WORDS[i]}" "${COMP_WORDS[i + 1]}"); i=$((i + 1)) ;;
      -o | --output | --timeout | --interval | --reason | -f | --file | --job | --port | --way | --drop | --every | --frames | --seconds | --bytes) i=$((i + 1)) ;;
      -*) ;;
      *) if [[ -z $noun ]]; then noun=${COMP_WORDS[i]}; elif [[ -z $verb ]]; then verb=${COMP_WORDS[i]}; else rest=$((rest + 1)); fi ;;
    esac
  done
  local keys='workers= token_file= window= priority= lease= packet_rate= bad_packet_rate= stragglers= admit.groups= admit.idle= quota.reserved= quota.weight= quota.cap= discipline= decay= elements= results= server= servers= boxes= racks= rack= parent= payload= slots= tsi= run= members='
  local words='--output --socket --instance --timeout --help'
  case "$noun $verb" in
    ' ') words+=' job port core slot drop config log trace restart fleet stats health version doctor events top --version' ;;
    'job ') words='list show add set remove abort' ;;
    'port ' | 'core ' | 'drop ') words='list' ;;
    'slot ') words='show' ;;
    'config ') words='show check diff reload' ;;
    'log ') words='set' ;;
    'trace ') words='write stop list' ;;
    'trace write')
      [[ $rest -eq 0 && $word != -* ]] && { mapfile -t COMPREPLY < <(compgen -f -- "$word"); return; }
      words+=' --job --port --way --drop --every --frames --seconds --bytes' ;;
    'log set') words='trace debug info warning error' ;;
    'config check') mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
    'top ') words+=' --once --interval' ;;
    'job add')
      compopt -o nospace 2>/dev/null
      words+=" --file name= dialect= $keys" ;;
    'job show' | 'job set' | 'job remove' | 'job abort' | 'job replan')
      [[ $verb == set ]] && { compopt -o nospace 2>/dev/null; words+=" $keys"; }
      [[ $verb == remove ]] && words+=' --abort'
      [[ $verb == abort ]] && words+=' --reason'
      if [[ $rest -eq 0 && $word != -* ]]; then
        # A name may hold blanks: one a line, and quoted where it must be.
        local name
        while IFS= read -r name; do
          [[ $name == "$word"* ]] && COMPREPLY+=("$(printf '%q' "$name")")
        done < <("${ask[@]}" job list 2>/dev/null)
        return
      fi ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -F _tallyctl tallyctl
