"""``skillwire completion``: scripts that complete commands, options and names in a shell.

A script passes the words of the command line to the typed program, with ``_SKILLWIRE_COMPLETE`` set to the shell's
name, and reads lines of ``kind TAB value TAB help``. Kinds are ``plain`` for a word, and ``dir`` and ``file``, which
the shell completes itself. bash splits words at ``:`` and ``=``, so it passes the whole line as one argument and
receives only the part after the last split. :mod:`skillwire.cli.complete` finds the words.
"""

from __future__ import annotations

import sys
from typing import Final

import click

from skillwire.cli.output import Output

_BASH: Final = r"""
_skillwire() {
    local kind value help
    COMPREPLY=()
    while IFS=$'\t' read -r kind value help; do
        case $kind in
            dir) compopt -o dirnames 2>/dev/null ;;
            file) compopt -o default 2>/dev/null ;;
            plain)
                COMPREPLY+=("$value")
                [[ $value == */ ]] && compopt -o nospace 2>/dev/null
                ;;
        esac
    done < <(_SKILLWIRE_COMPLETE=bash _SKILLWIRE_BREAKS=$COMP_WORDBREAKS \
        "${1/#\~/$HOME}" "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
}
complete -o nosort -F _skillwire skillwire
"""

_ZSH: Final = r"""
_skillwire() {
    local program=${(Q)words[1]} kind value help
    local -a entries places
    while IFS=$'\t' read -r kind value help; do
        case $kind in
            dir) _path_files -/ ;;
            file) _files ;;
            plain)
                if [[ $value == */ ]]; then
                    places+=("$value")
                else
                    entries+=("${value//:/\\:}${help:+:$help}")
                fi
                ;;
        esac
    done < <(_SKILLWIRE_COMPLETE=zsh "${program/#\~/$HOME}" "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)
    (( $#places )) && compadd -S '' -a places
    (( $#entries )) && _describe -V 'skillwire' entries
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _skillwire "$@"
else
    compdef _skillwire skillwire
fi
"""

_FISH: Final = r"""
function __skillwire
    set -l words (commandline -opc)
    set -l token (commandline -ct)
    set -l program (string replace -r '^~' $HOME -- $words[1])
    for line in (_SKILLWIRE_COMPLETE=fish $program $words[2..-1] "$token" 2>/dev/null)
        set -l parts (string split \t -- $line)
        switch $parts[1]
            case dir
                __fish_complete_directories "$token"
            case file
                __fish_complete_path "$token"
            case plain
                echo $parts[2]\t$parts[3]
        end
    end
end
complete --command skillwire --no-files --arguments '(__skillwire)'
"""

#: Shell → how to have its script read by every new shell, and the script.
SCRIPTS: Final[dict[str, tuple[str, str]]] = {
    "bash": ("""echo 'eval "$(skillwire completion bash)"' >> ~/.bashrc""", _BASH),
    "zsh": ("""echo 'eval "$(skillwire completion zsh)"' >> ~/.zshrc  # below the line with compinit""", _ZSH),
    "fish": ("skillwire completion fish > ~/.config/fish/completions/skillwire.fish", _FISH),
}


def script_of(shell: str) -> str:
    """Return the script for ``shell``, with installation instructions in its head."""
    how, script = SCRIPTS[shell]
    head = f"#compdef skillwire\n# To install: {how}\n" if shell == "zsh" else f"# To install: {how}\n"
    return head + script


@click.command()
@click.argument("shell", metavar="SHELL", type=click.Choice(list(SCRIPTS)))
def command(shell: str) -> None:
    """Print the completion script for SHELL: bash, zsh or fish.

    It completes commands, options, installed skills, published skills in the cache, agents, settings and codes.
    Pressing Tab never uses the network. The first lines of the script explain its installation.
    """
    click.echo(script_of(shell))
    if sys.stdout.isatty():
        Output().hint("to install it:", SCRIPTS[shell][0])
