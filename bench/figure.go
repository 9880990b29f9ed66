package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"regexp"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A figure is a diagram. Either x has labels, and points are at 0, 1 and so on, or it has numbers.
type figure struct {
	Title  string
	y, x   string // what the numbers are
	labels []string
	log    bool // the y axis, if all is above 0; else it begins at 0
	bars   bool // lines of one point each, at 0, 1 and so on
	Lines  []line
}

type figures []figure

type line struct {
	Name   string
	points []point
}

// A point has a median and extremes; they are the same if there is no spread.
type point struct {
	x float64
	y Spread
}

// Colors are told apart on white and on black, and by most people who see fewer of them.
var palette = []color.RGBA{
	{0x38, 0x82, 0xf6, 255}, {0xe8, 0x71, 0x0a, 255}, {0x12, 0x9b, 0x62, 255}, {0xd6, 0x45, 0x97, 255}, {0x8b, 0x6c, 0xf0, 255},
	{0xb3, 0x90, 0x0d, 255}, {0x0e, 0x9a, 0xa7, 255}, {0xd2, 0x45, 0x45, 255}, {0x7a, 0x8a, 0x99, 255}, {0x6b, 0x9c, 0x2a, 255},
}

func lineColor(i int) color.RGBA { return palette[i%len(palette)] }

func hex(c color.RGBA) string { return fmt.Sprintf("#%02X%02X%02X", c.R, c.G, c.B) }

// ink stands for the color of the text around the figure.
var ink = color.RGBA{1, 1, 1, 255}

const (
	figureWidth  = 400 * vg.Length(1) // points
	figureHeight = 220 * vg.Length(1)
)

// svg draws the figure without title and legend, which are beside it on the page.
func (f *figure) svg() (string, error) {
	p := plot.New()
	p.BackgroundColor = nil
	p.X.Label.Text, p.Y.Label.Text = f.x, f.y
	sans := font.Font{Typeface: "Liberation", Variant: "Sans", Size: 9}
	for _, style := range []*draw.TextStyle{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label,
	} {
		style.Color, style.Font = ink, sans
	}
	for _, l := range []*draw.LineStyle{&p.X.LineStyle, &p.Y.LineStyle, &p.X.Tick.LineStyle, &p.Y.Tick.LineStyle} {
		l.Color = ink
	}
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal.Color = color.NRGBA{0x80, 0x80, 0x80, 0x70}
	p.Add(grid)
	for i, l := range f.Lines {
		if err := f.draw(p, l, i); err != nil {
			return "", fmt.Errorf("%s, %s: %w", f.Title, l.Name, err)
		}
	}
	least, most := f.extremes()
	if f.log && least > 0 && most > 0 && !math.IsInf(least, 1) {
		logarithmic(&p.Y, least, most)
	} else {
		linear(&p.Y, most)
	}
	if f.labels != nil {
		var ticks plot.ConstantTicks
		for i, l := range f.labels {
			ticks = append(ticks, plot.Tick{Value: float64(i), Label: l})
		}
		margin := 0.3
		if f.bars {
			margin = 0.6
		}
		p.X.Tick.Marker, p.X.Min, p.X.Max = ticks, -margin, float64(len(f.labels)-1)+margin
	}
	c := vgsvg.New(figureWidth, figureHeight)
	p.Draw(draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return "", err
	}
	return inline(b.String(), f.Title), nil
}

// draw adds a line, with what its rounds differed by.
func (f *figure) draw(p *plot.Plot, l line, i int) error {
	at := make(plotter.XYs, len(l.points))
	errs := make(plotter.YErrors, len(l.points))
	spreads := false
	for j, pt := range l.points {
		at[j] = plotter.XY{X: pt.x, Y: pt.y.Median}
		errs[j].Low, errs[j].High = pt.y.Median-pt.y.Min, pt.y.Max-pt.y.Median
		spreads = spreads || errs[j].Low > 0 || errs[j].High > 0
	}
	if f.bars {
		bar, err := plotter.NewBarChart(plotter.Values{l.points[0].y.Median}, 30)
		if err != nil {
			return err
		}
		bar.XMin, bar.Color, bar.LineStyle.Width = l.points[0].x, lineColor(i), 0
		p.Add(bar)
	} else {
		drawn, err := plotter.NewLine(at)
		if err != nil {
			return err
		}
		drawn.Color, drawn.Width = lineColor(i), 1.5
		p.Add(drawn)
		if f.labels != nil {
			dots, err := plotter.NewScatter(at)
			if err != nil {
				return err
			}
			dots.GlyphStyle = draw.GlyphStyle{Color: lineColor(i), Radius: 2.5, Shape: shapes[i%len(shapes)]}
			p.Add(dots)
		}
	}
	if !spreads {
		return nil
	}
	bars, err := plotter.NewYErrorBars(struct {
		plotter.XYer
		plotter.YErrorer
	}{at, errs})
	if err != nil {
		return err
	}
	bars.Color = lineColor(i)
	if f.bars {
		bars.Color = ink
	}
	p.Add(bars)
	return nil
}

var shapes = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{}, draw.BoxGlyph{}}

// linear puts ticks on the y axis from 0 to what is a little above most, at steps that people count in.
func linear(axis *plot.Axis, most float64) {
	if most <= 0 {
		most = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(most)))
	switch { // three to six steps
	case most/step < 1.5:
		step /= 4
	case most/step < 3:
		step /= 2
	case most/step > 6:
		step *= 2
	}
	var ticks plot.ConstantTicks
	for i := 0; ; i++ {
		value := float64(i) * step
		label := fmt.Sprintf("%.4g", value)
		if most >= 10_000 && i > 0 {
			label = fmt.Sprintf("%.4gk", value/1000)
		}
		ticks = append(ticks, plot.Tick{Value: value, Label: label})
		if value >= most {
			axis.Min, axis.Max, axis.Tick.Marker = 0, value, ticks
			return
		}
	}
}

// logarithmic puts ticks on the y axis at 1, 2, 5, 10 and so on, from what is a little below least. Over many powers of ten
// only these have labels.
func logarithmic(axis *plot.Axis, least, most float64) {
	var ticks plot.ConstantTicks
	all := most/least < 200
	for value, i := math.Pow(10, math.Floor(math.Log10(least))), 0; ; i++ {
		next := value * []float64{2, 2.5, 2}[i%3]
		if next > least {
			tick := plot.Tick{Value: value}
			if all || i%3 == 0 {
				tick.Label = strconv.FormatFloat(value, 'f', -1, 64)
			}
			ticks = append(ticks, tick)
		}
		if value >= most && len(ticks) > 1 {
			break
		}
		value = next
	}
	axis.Scale = plot.LogScale{}
	axis.Min, axis.Max, axis.Tick.Marker = ticks[0].Value, ticks[len(ticks)-1].Value, ticks
}

// extremes are the least and the most of what is drawn.
func (f *figure) extremes() (least, most float64) {
	least = math.Inf(1)
	for _, l := range f.Lines {
		for _, p := range l.points {
			least, most = min(least, p.y.Min), max(most, p.y.Max)
		}
	}
	return least, most
}

var (
	svgHead = regexp.MustCompile(`(?s)^.*?<svg [^>]*viewBox="([^"]*)"[^>]*>`)
	svgText = regexp.MustCompile(`\s*style="[^"]*font-[^"]*"`)
)

// inline makes a part of a page of an SVG document: it takes its width, its font and the color of its text from there.
func inline(svg, title string) string {
	svg = svgHead.ReplaceAllString(svg, `<svg viewBox="$1" role="img" aria-label="`+strings.ReplaceAll(title, `"`, "")+`">`)
	svg = svgText.ReplaceAllString(svg, "")
	return strings.ReplaceAll(svg, hex(ink), "currentColor")
}
