package command

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
)

// How a value stays one word: the template is executed first, and the words are
// split afterwards, so that a block can hold several. What an action prints is
// not written into the text but kept aside, with a mark in its place that the
// splitter carries over literally, in quotes or not. To that end every printing
// action gets one more command at its end, as html/template adds its escapers.

// mark encloses the number of a kept value. A command line cannot contain it.
const mark = '\x00'

// keepFunc is the command that is added; no template can name it by accident.
const keepFunc = "_keep"

// compiled is a template that was parsed and whose fields are known.
type compiled struct {
	template *template.Template
	uses     map[string]bool
}

func compile(text string) (*compiled, error) {
	if strings.ContainsRune(text, mark) {
		return nil, errors.New("it contains a zero byte")
	}
	t, err := template.New("command").Funcs(template.FuncMap{
		"mul":    func(a, b int) int { return a * b },
		keepFunc: func(v any) string { return fmt.Sprint(v) }, // replaced at each execution
	}).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: the known fields are %s", parseWords(err), known())
	}
	c := &compiled{template: t, uses: map[string]bool{}}
	for _, part := range t.Templates() {
		if part.Tree == nil || part.Root == nil {
			continue
		}
		if err := c.walk(part.Root); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// parseWords drops text/template's "template: command:1: " in front of an error.
func parseWords(err error) string {
	s := strings.TrimPrefix(err.Error(), "template: command:")
	_, rest, ok := strings.Cut(s, ": ")
	if !ok {
		return s
	}
	return rest
}

func known() string { return "{{." + strings.Join(Fields(), "}}, {{.") + "}}" }

// walk notes the fields in a piece of template, refuses unknown ones, and adds
// keepFunc to what prints.
func (c *compiled) walk(node parse.Node) error {
	switch n := node.(type) {
	case *parse.ListNode:
		if n == nil {
			return nil
		}
		for _, part := range n.Nodes {
			if err := c.walk(part); err != nil {
				return err
			}
		}
	case *parse.ActionNode:
		if err := c.pipe(n.Pipe); err != nil {
			return err
		}
		if len(n.Pipe.Decl) == 0 { // an assignment prints nothing
			keep := parse.NewIdentifier(keepFunc).SetTree(nil).SetPos(n.Pos)
			n.Pipe.Cmds = append(n.Pipe.Cmds, &parse.CommandNode{NodeType: parse.NodeCommand, Pos: n.Pos, Args: []parse.Node{keep}})
		}
	case *parse.IfNode:
		return c.branch(&n.BranchNode)
	case *parse.RangeNode:
		return c.branch(&n.BranchNode)
	case *parse.WithNode:
		return c.branch(&n.BranchNode)
	case *parse.TemplateNode:
		return c.pipe(n.Pipe)
	default: // text, comments, break, continue
	}
	return nil
}

func (c *compiled) branch(b *parse.BranchNode) error {
	if err := c.pipe(b.Pipe); err != nil {
		return err
	}
	if err := c.walk(b.List); err != nil {
		return err
	}
	return c.walk(b.ElseList)
}

func (c *compiled) pipe(p *parse.PipeNode) error {
	if p == nil {
		return nil
	}
	for _, cmd := range p.Cmds {
		for _, arg := range cmd.Args {
			if err := c.argument(arg); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *compiled) argument(node parse.Node) error {
	switch n := node.(type) {
	case *parse.FieldNode: // .TP
		return c.field(n.Ident)
	case *parse.VariableNode: // $.TP
		if n.Ident[0] == "$" && len(n.Ident) > 1 {
			return c.field(n.Ident[1:])
		}
	case *parse.PipeNode: // (…)
		return c.pipe(n)
	case *parse.ChainNode: // (…).X
		return fmt.Errorf("%s: a value has no fields: the known fields are %s", n, known())
	default: // constants, functions, the dot
	}
	return nil
}

func (c *compiled) field(path []string) error {
	if len(path) != 1 || !slices.Contains(Fields(), path[0]) {
		return fmt.Errorf("unknown field {{.%s}}: the known fields are %s", strings.Join(path, "."), known())
	}
	c.uses[path[0]] = true
	return nil
}

// execute gives the text with marks, and the values that they stand for.
func (c *compiled) execute(f fields) (text string, kept []string, err error) {
	t, err := c.template.Clone() // so that c can be executed by several goroutines
	if err != nil {
		return "", nil, err
	}
	t.Funcs(template.FuncMap{keepFunc: func(v any) string {
		kept = append(kept, fmt.Sprint(v))
		return string(mark) + strconv.Itoa(len(kept)-1) + string(mark)
	}})
	var b strings.Builder
	if err := t.Execute(&b, f); err != nil {
		return "", nil, errors.New(parseWords(err))
	}
	for _, v := range kept {
		if strings.ContainsRune(v, 0) {
			return "", nil, fmt.Errorf("value %q contains a zero byte", v)
		}
	}
	return b.String(), kept, nil
}

// text is the whole as one string.
func (c *compiled) text(f fields) (string, error) {
	s, kept, err := c.execute(f)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for s != "" {
		before, rest, found := strings.Cut(s, string(mark))
		b.WriteString(before)
		if !found {
			break
		}
		var value string
		value, s = unmark(rest, kept)
		b.WriteString(value)
	}
	return b.String(), nil
}

// words is the whole split into words.
func (c *compiled) words(f fields) ([]string, error) {
	s, kept, err := c.execute(f)
	if err != nil {
		return nil, err
	}
	return split(s, kept)
}

// unmark gives the value whose mark was just opened, and what follows the mark.
func unmark(s string, kept []string) (value, rest string) {
	number, rest, _ := strings.Cut(s, string(mark))
	i, err := strconv.Atoi(number)
	if err != nil || i >= len(kept) {
		panic("command: a mark without value: " + number) // only execute writes marks
	}
	return kept[i], rest
}
