/** A rectangle in the coordinates of a chart. */
export type Box = { left: number; top: number; right: number; bottom: number }

/** A point of a chart with the text of its label. `width` is the width of the text. */
export type ChartPoint = { x: number; y: number; width: number; text: string }
/** A label with its position. A label far from its point has a leader line. */
export type PlacedLabel = { x: number; y: number; anchor: 'start' | 'end' | 'middle'; text: string; hasLeader: boolean }

// All numbers are pixels of the chart.
/** Height of a label above and below its base line. */
const LABEL_ASCENT = 12
const LABEL_DESCENT = 4
/** Horizontal distance between a point and its label. */
const LABEL_GAP = 9
/** Radius around a point that labels of other points leave free. */
const POINT_RADIUS = 8
/** A label at a greater vertical distance gets a leader line to its point. */
const LEADER_DISTANCE = 26

type LabelOffset = { dx: number; dy: number; anchor: PlacedLabel['anchor'] }

/** Positions of a label relative to its point, the best first. */
const LABEL_OFFSETS: readonly LabelOffset[] = [
  ...toSides(0, 4),
  ...toSides(-4, -8),
  ...toSides(-4, 18),
  ...[-18, 26].map((dy): LabelOffset => ({ dx: 0, dy, anchor: 'middle' })),
  ...[-30, 38, -46, 54].flatMap((dy) => toSides(4, dy)),
]

/** Returns the positions at the right and at the left of the point. */
function toSides(dx: number, dy: number): LabelOffset[] {
  return [
    { dx: LABEL_GAP + dx, dy, anchor: 'start' },
    { dx: -LABEL_GAP - dx, dy, anchor: 'end' },
  ]
}

/**
 * Places labels so that none overlaps another label, another point or the edge of the plot, and as few obstacles as
 * possible. Points are in order of importance. The result is undefined for a label that does not fit: the table below the
 * chart names every point.
 */
export function placeLabels(
  points: readonly ChartPoint[],
  plot: Box,
  obstacles: readonly Box[] = [],
): (PlacedLabel | undefined)[] {
  const pointBoxes = points.map(({ x, y }) => ({
    left: x - POINT_RADIUS,
    top: y - POINT_RADIUS,
    right: x + POINT_RADIUS,
    bottom: y + POINT_RADIUS,
  }))
  const labelBoxes: Box[] = []
  return points.map((point, ownIndex) => {
    const occupied = [...labelBoxes, ...pointBoxes.filter((_, index) => index !== ownIndex)]
    const free = LABEL_OFFSETS.map((offset) => ({ offset, box: toLabelBox(point, offset) })).filter(
      ({ box }) => isInside(box, plot) && !occupied.some((other) => doOverlap(box, other)),
    )
    const best = free.toSorted((a, b) => countOverlaps(a.box, obstacles) - countOverlaps(b.box, obstacles))[0]
    if (!best) return undefined
    labelBoxes.push(best.box)
    const { dx, dy, anchor } = best.offset
    return { x: point.x + dx, y: point.y + dy, anchor, text: point.text, hasLeader: Math.abs(dy) > LEADER_DISTANCE }
  })
}

/** Share of a label's width that is left of its anchor. */
const LEFT_SHARES: Record<PlacedLabel['anchor'], number> = { start: 0, middle: 0.5, end: 1 }

function toLabelBox({ x, y, width }: ChartPoint, { dx, dy, anchor }: LabelOffset): Box {
  const left = x + dx - LEFT_SHARES[anchor] * width
  return { left, right: left + width, top: y + dy - LABEL_ASCENT, bottom: y + dy + LABEL_DESCENT }
}

const isInside = (box: Box, plot: Box): boolean =>
  box.left >= plot.left && box.right <= plot.right && box.top >= plot.top && box.bottom <= plot.bottom

const doOverlap = (a: Box, b: Box): boolean =>
  a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom

const countOverlaps = (box: Box, others: readonly Box[]): number =>
  others.filter((other) => doOverlap(box, other)).length
