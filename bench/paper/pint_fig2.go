package paper

import "context"

// pintFig2 is figure 1's experiment for flows over 10 MB: their mean goodput over that without overhead.
// goodput.48B.load70 is the row of 48 bytes on each packet at 70 % of load.
func pintFig2(ctx context.Context, o Options) ([]Row, error) {
	return renoFigure(ctx, o, "goodput", "mean goodput of flows over 10 MB over that without overhead, Reno, web search; PINT Fig. 2", "higher",
		map[string]float64{"48B.load70": 0.90, "108B.load70": 0.80}, func(r *simulated) float64 {
			mean, _ := r.longGoodput()
			return mean
		})
}
