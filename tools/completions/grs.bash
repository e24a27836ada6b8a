# bash completion of grsgen and grsrun. Options come from the command's own --help, so they are those of the installed
# version.
_grs() {
    local command=$1 current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} choices= in_cache=
    if [[ ${command##*/} == grsgen && $COMP_CWORD -gt 1 && ${COMP_WORDS[1]} == cache ]]; then in_cache=${COMP_WORDS[2]}; fi
    # "--schema=json" comes as three words.
    if [[ $current == = ]]; then current=; elif [[ $previous == = ]]; then previous=${COMP_WORDS[COMP_CWORD - 2]}; fi
    case $previous in
    --config | --diff | --output | -o | --save | --svg) ;;
    --emit) choices="cuda ptx cubin sass log all" ;;
    --arch) choices="sm_90a sm_100a sm_100f sm_103a" ;;
    --schema) choices="json markdown" ;;
    --backend) choices="auto gpu emu" ;;
    --l2) choices="warm cold" ;;
    --schedule) choices="random eager lazy adversarial" ;;
    --part) choices="key config meta source ptx cubin log" ;;
    cache) choices="path list show verify prune clear pack unpack" ;;
    show) if [[ -n $in_cache ]]; then choices=$("$command" cache list 2>/dev/null | grep -oE '^[0-9a-f]{8,}'); fi ;;
    *)
        if [[ $current == -* && -n $in_cache ]]; then
            choices="--json $("$command" cache --help 2>/dev/null | grep -E "^  $in_cache " | grep -oE -e '--[a-z]+')"
        elif [[ $current == -* ]]; then
            choices=$("$command" --help 2>/dev/null | sed -nE 's/^  (--[a-z0-9-]+).*/\1/p')
        elif [[ $COMP_CWORD -eq 1 && ${command##*/} == grsgen ]]; then
            choices="cache doctor"
        fi
        ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$current")
    if [[ ${#COMPREPLY[@]} -eq 0 ]]; then mapfile -t COMPREPLY < <(compgen -f -- "$current"); fi
}
complete -F _grs -o filenames grsgen grsrun
