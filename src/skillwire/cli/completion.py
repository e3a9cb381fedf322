"""``skillwire completion``: the script that makes a shell complete commands, options and live names.

The scripts that make shells ask ``skillwire`` what could stand at the cursor.

A script only carries the words there and the answers back: it runs the very program that was typed, with
``_SKILLWIRE_COMPLETE`` set to the shell's name and the words as arguments, and reads lines of
``kind TAB value TAB help``. Kinds are ``plain`` for a word, ``dir`` and ``file`` for what the shell completes itself.
bash hands its words over broken at ``:`` and ``=``, so there the whole line goes as one argument, and only the part
after the last break comes back. See :mod:`skillwire.cli.complete` for the answering side.
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
    """Return the script for ``shell``, with a head that says how to install it."""
    how, script = SCRIPTS[shell]
    head = f"#compdef skillwire\n# To install: {how}\n" if shell == "zsh" else f"# To install: {how}\n"
    return head + script


@click.command()
@click.argument("shell", metavar="SHELL", type=click.Choice(list(SCRIPTS)))
def command(shell: str) -> None:
    """Print the script that makes SHELL (bash, zsh or fish) complete skillwire.

    Besides commands and options it completes installed skills, what the indexes in the cache publish, agents,
    settings and codes. Pressing Tab never asks the network. The first lines of the script say how to install it.
    """
    click.echo(script_of(shell))
    if sys.stdout.isatty():
        Output().hint("to install it:", SCRIPTS[shell][0])
