package soak

import (
	"math"
	"slices"
	"time"
)

// Point is one measurement.
type Point struct {
	At    time.Duration
	Value float64
}

// Allowance is how much a measure may rise from the first to the last point and
// still be called flat: the larger of both.
type Allowance struct {
	Share    float64 // of the first quarter
	Absolute float64
}

// Trend is what became of a measure.
type Trend struct {
	Of      string  `json:"of"` // a process, or a stream
	What    string  `json:"what"`
	First   float64 `json:"first"` // median of the first quarter of the time
	Last    float64 `json:"last"`  // median of the last
	Rise    float64 `json:"rise"`  // over the whole time, by the median slope
	Growing bool    `json:"growing"`
}

// fewest points that a verdict may stand on.
const fewest = 12

// judge says how a measure went. It grows when three things agree: the slope,
// the quarters, and that both are more than the noise around the slope. The
// slope is the median of those between all pairs of points (Theil and Sen), so
// that what a fault does for some seconds does not bend it. Too few points are
// taken for growth, since nobody can say that it was flat.
func judge(points []Point, allowed Allowance) Trend {
	if len(points) < fewest {
		return Trend{Growing: true}
	}
	span := points[len(points)-1].At - points[0].At
	slope := medianSlope(points)
	t := Trend{
		First: medianOf(points[:len(points)/4]),
		Last:  medianOf(points[len(points)-len(points)/4:]),
		Rise:  slope * span.Seconds(),
	}
	limit := max(allowed.Share*t.First, allowed.Absolute, noise(points, slope))
	t.Growing = t.Rise > limit && (t.Last-t.First)/quarters > limit
	return t
}

// quarters is how much of the time lies between the middle of the first quarter
// and that of the last.
const quarters = 0.75

func medianSlope(points []Point) float64 {
	slopes := make([]float64, 0, len(points)*(len(points)-1)/2)
	for i, a := range points {
		for _, b := range points[i+1:] {
			if b.At > a.At {
				slopes = append(slopes, (b.Value-a.Value)/(b.At-a.At).Seconds())
			}
		}
	}
	return median(slopes)
}

// noise is how far a point lies from the slope, in the median.
func noise(points []Point, slope float64) float64 {
	rest := make([]float64, len(points))
	for i, p := range points {
		rest[i] = p.Value - slope*p.At.Seconds()
	}
	middle := median(slices.Clone(rest))
	for i := range rest {
		rest[i] = math.Abs(rest[i] - middle)
	}
	return median(rest)
}

func medianOf(points []Point) float64 {
	values := make([]float64, len(points))
	for i, p := range points {
		values[i] = p.Value
	}
	return median(values)
}

// median sorts values; 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
