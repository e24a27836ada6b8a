# fish completion of grsgen and grsrun. Options come from the command's own --help, with what it says about them.
function __grs_options
    set -l words (commandline -opc)
    if test (count $words) -gt 1; and test "$words[2]" = cache
        echo --json
        test (count $words) -gt 2; and $words[1] cache --help 2>/dev/null | string match -r "^  $words[3] .*" | string match -ra -- '--[a-z]+'
        return 0
    end
    $words[1] --help 2>/dev/null | string replace -rf '^  --([a-z0-9-]+)\S*\s+(\S.*)$' -- '--$1\t$2'
end
function __grs_after -a word -d 'grsgen cache WORD'
    set -l words (commandline -opc)
    test (count $words) -ge 3; and test "$words[2]" = cache; and test "$words[3]" = $word
end
for command in grsgen grsrun
    complete -c $command -n 'string match -q -- "-*" (commandline -ct)' -a '(__grs_options)'
    complete -c $command -l emit -x -a 'cuda ptx cubin sass log all'
    complete -c $command -l arch -x -a 'sm_90a sm_100a sm_100f sm_103a'
    complete -c $command -l backend -x -a 'auto gpu emu'
    complete -c $command -l config -r
end
complete -c grsrun -l l2 -x -a 'warm cold'
complete -c grsrun -l schedule -x -a 'random eager lazy adversarial'
complete -c grsgen -l schema -x -a 'json markdown'
complete -c grsgen -n '__grs_after show' -l part -x -a 'key config meta source ptx cubin log'
complete -c grsgen -n '__grs_after show' -f -a '(grsgen cache list 2>/dev/null | string match -r "^[0-9a-f]{8,}")'
complete -c grsgen -n __fish_use_subcommand -a 'cache doctor'
complete -c grsgen -n 'test (count (commandline -opc)) -eq 2; and __fish_seen_subcommand_from cache' -f -a 'path list show verify prune clear pack unpack'
