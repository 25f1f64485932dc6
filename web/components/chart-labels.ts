/** A rectangle in the coordinates of a chart. */
export type Box = { left: number; top: number; right: number; bottom: number }

export type ChartPoint = { x: number; y: number; width: number; text: string }
export type PlacedLabel = { x: number; y: number; anchor: 'start' | 'end' | 'middle'; text: string; leader: boolean }

const HEIGHT = 15
const GAP = 9
const RADIUS = 8

type LabelOffset = { dx: number; dy: number; anchor: PlacedLabel['anchor'] }

/** Positions to try, the best first. Those further away get a leader line. */
const CANDIDATES: readonly LabelOffset[] = [
  ...toSides(0, 4),
  ...toSides(-4, -8),
  ...toSides(-4, 18),
  ...[-18, 26].map((dy): LabelOffset => ({ dx: 0, dy, anchor: 'middle' })),
  ...[-30, 38, -46, 54].flatMap((dy) => toSides(4, dy)),
]

function toSides(dx: number, dy: number): LabelOffset[] {
  return [
    { dx: GAP + dx, dy, anchor: 'start' },
    { dx: -GAP - dx, dy, anchor: 'end' },
  ]
}

/**
 * Places labels so that none overlaps another label, a point, or the edge of the plot. Points come in the order of
 * importance; a label without room is undefined, because the table below the chart names every point.
 */
export function placeLabels(
  points: readonly ChartPoint[],
  plot: Box,
  obstacles: readonly Box[] = [],
): (PlacedLabel | undefined)[] {
  const marks = points.map(({ x, y }) => ({ left: x - RADIUS, top: y - RADIUS, right: x + RADIUS, bottom: y + RADIUS }))
  const taken: Box[] = []
  return points.map((point, own) => {
    const others = marks.filter((_, index) => index !== own)
    const options = CANDIDATES.map((candidate) => ({ candidate, box: toBox(point, candidate) })).filter(
      ({ box }) => isInside(box, plot) && ![...taken, ...others].some((other) => overlap(box, other)),
    )
    const best = options.toSorted((a, b) => countOverlaps(a.box, obstacles) - countOverlaps(b.box, obstacles))[0]
    if (!best) return undefined
    taken.push(best.box)
    const { dx, dy, anchor } = best.candidate
    return { x: point.x + dx, y: point.y + dy, anchor, text: point.text, leader: Math.abs(dy) > 26 }
  })
}

function toBox({ x, y, width }: ChartPoint, { dx, dy, anchor }: LabelOffset): Box {
  const left = x + dx - (anchor === 'end' ? width : anchor === 'middle' ? width / 2 : 0)
  return { left, right: left + width, top: y + dy - HEIGHT + 3, bottom: y + dy + 4 }
}

const isInside = (box: Box, plot: Box): boolean =>
  box.left >= plot.left && box.right <= plot.right && box.top >= plot.top && box.bottom <= plot.bottom

const overlap = (a: Box, b: Box): boolean =>
  a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom

const countOverlaps = (box: Box, others: readonly Box[]): number => others.filter((other) => overlap(box, other)).length
