# Completion of tally-plan for bash.
_tally_plan() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]} words='--json --help'
  case $before in
    --job | --boxes | --rate | --at) return ;;
    --lose)
      compopt -o nospace 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -W 'box= link= switch=' -- "$word")
      return ;;
  esac
  if [[ $COMP_CWORD -eq 1 ]]; then
    mapfile -t COMPREPLY < <(compgen -W 'show buy what-if --help --version' -- "$word")
    return
  fi
  case $verb in
    show) words+=' --job --all' ;;
    buy) words+=' --boxes --rate --at --instead' ;;
    what-if) words+=' --lose --job' ;;
  esac
  if [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -o filenames -F _tally_plan tally-plan
