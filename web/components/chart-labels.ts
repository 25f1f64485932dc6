/** A rectangle in the coordinates of a chart. */
export type Box = { left: number; top: number; right: number; bottom: number }

export type ChartPoint = { x: number; y: number; width: number; text: string }
export type PlacedLabel = { x: number; y: number; anchor: 'start' | 'end' | 'middle'; text: string; hasLeader: boolean }

const LABEL_HEIGHT = 15
const LABEL_GAP = 9
const POINT_RADIUS = 8
/** A label at a greater vertical distance gets a leader line to its point. */
const LEADER_DISTANCE = 26

type LabelOffset = { dx: number; dy: number; anchor: PlacedLabel['anchor'] }

/** Positions to try, the best first. */
const CANDIDATES: readonly LabelOffset[] = [
  ...toSides(0, 4),
  ...toSides(-4, -8),
  ...toSides(-4, 18),
  ...[-18, 26].map((dy): LabelOffset => ({ dx: 0, dy, anchor: 'middle' })),
  ...[-30, 38, -46, 54].flatMap((dy) => toSides(4, dy)),
]

function toSides(dx: number, dy: number): LabelOffset[] {
  return [
    { dx: LABEL_GAP + dx, dy, anchor: 'start' },
    { dx: -LABEL_GAP - dx, dy, anchor: 'end' },
  ]
}

/**
 * Places labels so that none overlaps another label, a point, or the edge of the plot. Points are in order of
 * importance; a label without room is undefined, because the table below the chart names every point.
 */
export function placeLabels(
  points: readonly ChartPoint[],
  plot: Box,
  obstacles: readonly Box[] = [],
): (PlacedLabel | undefined)[] {
  const marks = points.map(({ x, y }) => ({
    left: x - POINT_RADIUS,
    top: y - POINT_RADIUS,
    right: x + POINT_RADIUS,
    bottom: y + POINT_RADIUS,
  }))
  const labelBoxes: Box[] = []
  return points.map((point, ownIndex) => {
    const others = marks.filter((_, index) => index !== ownIndex)
    const options = CANDIDATES.map((candidate) => ({ candidate, box: toBox(point, candidate) })).filter(
      ({ box }) => isInside(box, plot) && ![...labelBoxes, ...others].some((other) => doOverlap(box, other)),
    )
    const best = options.toSorted((a, b) => countOverlaps(a.box, obstacles) - countOverlaps(b.box, obstacles))[0]
    if (!best) return undefined
    labelBoxes.push(best.box)
    const { dx, dy, anchor } = best.candidate
    return { x: point.x + dx, y: point.y + dy, anchor, text: point.text, hasLeader: Math.abs(dy) > LEADER_DISTANCE }
  })
}

/** Share of a label's width that is left of its anchor. */
const LEFT_SHARES: Record<PlacedLabel['anchor'], number> = { start: 0, middle: 0.5, end: 1 }

function toBox({ x, y, width }: ChartPoint, { dx, dy, anchor }: LabelOffset): Box {
  const left = x + dx - LEFT_SHARES[anchor] * width
  return { left, right: left + width, top: y + dy - LABEL_HEIGHT + 3, bottom: y + dy + 4 }
}

const isInside = (box: Box, plot: Box): boolean =>
  box.left >= plot.left && box.right <= plot.right && box.top >= plot.top && box.bottom <= plot.bottom

const doOverlap = (a: Box, b: Box): boolean =>
  a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom

const countOverlaps = (box: Box, others: readonly Box[]): number =>
  others.filter((other) => doOverlap(box, other)).length
