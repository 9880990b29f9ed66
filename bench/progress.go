package main

import (
	"fmt"
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
)

// A progress tells what is going on: as a bar on a terminal, else in lines. Nil is silent.
type progress struct {
	out      io.Writer
	terminal bool
	run      string
	bar      *progressbar.ProgressBar // of what is counted now; nil for none
}

func newProgress(out *os.File) *progress {
	info, err := out.Stat()
	return &progress{out: out, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// title begins a run.
func (p *progress) title(format string, args ...any) {
	if p == nil {
		return
	}
	p.end()
	p.run = fmt.Sprintf(format, args...)
}

// say tells of something whose end is not known.
func (p *progress) say(format string, args ...any) {
	p.begin(-1, format, args...)
}

// begin tells of something that takes so many steps.
func (p *progress) begin(steps int, format string, args ...any) {
	if p == nil {
		return
	}
	p.end()
	what := p.run + ": " + fmt.Sprintf(format, args...)
	if !p.terminal {
		fmt.Fprintln(p.out, what)
		return
	}
	p.bar = progressbar.NewOptions(steps,
		progressbar.OptionSetWriter(p.out), progressbar.OptionSetDescription(what), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetWidth(20), progressbar.OptionShowCount(), progressbar.OptionSetRenderBlankState(true))
}

// step tells that a step is done.
func (p *progress) step() {
	if p != nil && p.bar != nil {
		_ = p.bar.Add(1)
	}
}

// end takes the bar away.
func (p *progress) end() {
	if p != nil && p.bar != nil {
		_ = p.bar.Finish()
		p.bar = nil
	}
}
