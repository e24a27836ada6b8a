# bash completion of grsgen and grsrun. Options come from the command's own --help, so they are those of the installed
# version.
_grs() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} choices=
    case $previous in
    --config | --diff) ;;
    --emit) choices="cuda ptx cubin sass log all" ;;
    --arch) choices="sm_90a sm_100a" ;;
    --backend) choices="auto gpu emu" ;;
    cache) choices="path list show verify prune clear pack unpack" ;;
    *)
        if [[ $current == -* ]]; then
            choices=$("$1" --help 2>/dev/null | sed -nE 's/^  (--[a-z0-9-]+).*/\1/p')
        elif [[ $COMP_CWORD -eq 1 && ${1##*/} == grsgen ]]; then
            choices="cache doctor"
        fi
        ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$current")
    if [[ ${#COMPREPLY[@]} -eq 0 ]]; then mapfile -t COMPREPLY < <(compgen -f -- "$current"); fi
}
complete -F _grs -o filenames grsgen grsrun
