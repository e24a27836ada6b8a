# fish completion of grsgen and grsrun. Options come from the command's own --help.
function __grs_options
    set -l command (commandline -opc)[1]
    $command --help 2>/dev/null | string replace -rf '^  --([a-z0-9-]+)\S*\s+(\S.*)$' -- '--$1\t$2'
end
for command in grsgen grsrun
    complete -c $command -n 'string match -q -- "-*" (commandline -ct)' -a '(__grs_options)'
    complete -c $command -l emit -x -a 'cuda ptx cubin sass log all'
    complete -c $command -l arch -x -a 'sm_90a sm_100a'
    complete -c $command -l backend -x -a 'auto gpu emu'
    complete -c $command -l config -r
end
complete -c grsgen -n '__fish_use_subcommand' -a 'cache doctor'
complete -c grsgen -n '__fish_seen_subcommand_from cache' -a 'path list show verify prune clear pack unpack'
