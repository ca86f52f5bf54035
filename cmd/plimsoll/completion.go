package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"plimsoll/engine/field"
)

// The scripts ask the program itself for words, through urfave/cli's
// --generate-bash-completion, so that they never drift from the flags.
const (
	bashCompletion = `_plimsoll() {
  local cur words
  cur="${COMP_WORDS[COMP_CWORD]}"
  if [[ "$cur" == -* ]]; then
    words=$("${COMP_WORDS[@]:0:COMP_CWORD}" "$cur" --generate-bash-completion 2>/dev/null)
  else
    words=$("${COMP_WORDS[@]:0:COMP_CWORD}" --generate-bash-completion 2>/dev/null)
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _plimsoll plimsoll
`
	zshCompletion = `#compdef plimsoll
_plimsoll() {
  local -a args found
  args=("${(@)words[1,CURRENT-1]}")
  [[ "${words[CURRENT]}" == -* ]] && args+=("${words[CURRENT]}")
  found=("${(@f)$(_CLI_ZSH_AUTOCOMPLETE_HACK=1 "${args[@]}" --generate-bash-completion 2>/dev/null)}")
  if [[ -n "${found[1]}" ]]; then _describe 'values' found; else _files; fi
}
compdef _plimsoll plimsoll
`
)

func completionCommand() *cli.Command {
	return &cli.Command{
		Name: "completion", Usage: "print a shell completion script", ArgsUsage: "SHELL",
		Description: "bash|zsh|fish\n\n" +
			"   source <(plimsoll completion bash)\n" +
			"   plimsoll completion zsh > \"${fpath[1]}/_plimsoll\"\n" +
			"   plimsoll completion fish > ~/.config/fish/completions/plimsoll.fish",
		Action: func(c *cli.Context) error {
			script, err := completionScript(c.App, c.Args().First())
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(c.App.Writer, script)
			return err
		},
	}
}

func completionScript(app *cli.App, shell string) (string, error) {
	switch shell {
	case "bash":
		return bashCompletion, nil
	case "zsh":
		return zshCompletion, nil
	case "fish":
		return app.ToFishCompletion()
	default:
		return "", field.Errorf("unknown shell %q: want bash, zsh or fish", shell)
	}
}
