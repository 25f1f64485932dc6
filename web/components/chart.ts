import { html } from 'hono/html'
import type { Release, ReleaseSetting } from '../../src/releases/shapes/schema.ts'
import { widthOf } from '../../src/results/text.ts'
import { type Box, type PlacedLabel, placeLabels } from './chart-labels.ts'
import { type AccuracyScale, type CostScale, round, toAccuracyScale, toCostScale } from './chart-scale.ts'
import {
  describeSetting,
  formatDate,
  formatInterval,
  type Html,
  nameHarness,
  percent,
  plural,
  safeText,
  usd,
} from './format.ts'

type PlottedSetting = Pick<
  ReleaseSetting,
  'id' | 'model' | 'harness' | 'reasoningLevel' | 'accuracy' | 'costPerTaskUsd' | 'onFrontier'
> & { stats: Pick<ReleaseSetting['stats'], 'ci95'> }

/** The parts of a release that a chart shows. */
type ChartRelease = Pick<Release, 'frontier'> & {
  settings: readonly PlottedSetting[]
  prices: Pick<Release['prices'], 'at'>
}

type ChartOptions = {
  /** True if the costs are at today's prices. */
  isToday?: boolean | undefined
  /** Id of the recommended setting. */
  recommended?: string | undefined
}

type ChartSize = { width: number; height: number; labelMax: number; costTicksMax: number; kind: 'wide' | 'narrow' }

const WIDE: ChartSize = { width: 920, height: 400, labelMax: 44, costTicksMax: 8, kind: 'wide' }
const NARROW: ChartSize = { width: 340, height: 330, labelMax: 20, costTicksMax: 5, kind: 'narrow' }
const CHARACTER_WIDTH_PX = 6.9
const RING_RADIUS = 9
/** Additional distance between the recommended point, which has a ring, and its label. */
const RING_GAP = 4

type ChartFrame = AccuracyScale & { plot: Box; cost: CostScale; recommended: string | undefined }

/**
 * Draws accuracy over cost with 95 % intervals. The frontier is a step line, because no setting exists between two of
 * its points. There are two drawings, of which the stylesheet shows the one that fits the screen.
 */
export const drawFrontierChart = (release: ChartRelease, options: ChartOptions = {}): Html =>
  html`${drawChart(release, WIDE, options)}${drawChart(release, NARROW, options)}`

function drawChart({ settings, frontier, prices }: ChartRelease, size: ChartSize, options: ChartOptions): Html {
  const { isToday, recommended } = options
  const onFrontier = frontier.flatMap((id) => settings.filter((setting) => setting.id === id))
  const others = settings.filter((setting) => !frontier.includes(setting.id))
  const frame = toFrame(settings, size, recommended)
  const { plot, cost } = frame
  const releasePrices = prices.at ? formatDate(prices.at) : 'the trials'
  const pricesAt = isToday ? 'today' : releasePrices
  const caption = `cost per task${cost.isLog ? ', log scale' : ''}${size.kind === 'wide' ? `, prices of ${pricesAt}` : ''}`
  const summary = `Accuracy against cost per task of ${plural(settings.length, 'setting')}, ${onFrontier.length} on the frontier. The table below has all numbers.`
  return html`<svg class="chart ${size.kind}" viewBox="0 0 ${size.width} ${size.height}" role="img" aria-label="${summary}">
${drawAxes(frame, size)}
<text class="tick" x="${plot.right}" y="${size.height - 6}" text-anchor="end">${caption}</text>
${drawSteps(onFrontier, frame)}
${[...others, ...onFrontier].map((setting) => drawPoint(setting, frame))}
${drawLabels([...onFrontier.toReversed(), ...others], frame, size)}
</svg>`
}

function toFrame(settings: readonly PlottedSetting[], size: ChartSize, recommended: string | undefined): ChartFrame {
  const plot = { left: 46, top: 14, right: size.width - 10, bottom: size.height - 46 }
  const costs = settings.map(({ costPerTaskUsd }) => costPerTaskUsd)
  return { plot, ...toAccuracyScale(settings, plot), cost: toCostScale(costs, plot, size.costTicksMax), recommended }
}

const drawAxes = ({ plot, cost, toY, accuracyTicks }: ChartFrame, { height }: ChartSize): Html =>
  html`${accuracyTicks.map(
    (tick) =>
      html`<line class="grid" x1="${plot.left}" x2="${plot.right}" y1="${toY(tick)}" y2="${toY(tick)}"/><text class="tick" x="${plot.left - 8}" y="${toY(tick) + 4}" text-anchor="end">${tick} %</text>`,
  )}${cost.ticks.map(
    (tick) =>
      html`<line class="notch" x1="${cost.toX(tick)}" x2="${cost.toX(tick)}" y1="${plot.bottom}" y2="${plot.bottom + 5}"/><text class="tick" x="${cost.toX(tick)}" y="${height - 26}" text-anchor="middle">${usd(tick)}</text>`,
  )}`

function drawSteps(frontier: readonly PlottedSetting[], { cost, toY, plot }: ChartFrame): Html {
  const [first, ...rest] = frontier
  if (!first) return html``
  const start = cost.toX(first.costPerTaskUsd)
  const steps = rest.map((each) => `H${cost.toX(each.costPerTaskUsd)}V${toY(each.accuracy)}`).join('')
  const line = `M${start},${toY(first.accuracy)}${steps}H${plot.right}`
  return html`<path class="unattained" d="${line}V${plot.top}H${start}Z"/><path class="steps" d="${line}"/>`
}

function drawPoint(setting: PlottedSetting, { cost, toY, recommended }: ChartFrame): Html {
  const { id, accuracy, costPerTaskUsd, onFrontier, stats } = setting
  const x = cost.toX(costPerTaskUsd)
  const { ci95 } = stats
  return html`<g class="${onFrontier ? 'on' : 'off'}"><title>${describePoint(setting)}</title>${
    ci95 ? html`<line class="whisker" x1="${x}" x2="${x}" y1="${toY(ci95.low)}" y2="${toY(ci95.high)}"/>` : ''
  }<circle cx="${x}" cy="${toY(accuracy)}" r="${onFrontier ? 6 : 4.5}"/>${id === recommended ? html`<circle class="ring" cx="${x}" cy="${toY(accuracy)}" r="${RING_RADIUS}"/>` : ''}</g>`
}

function describePoint(setting: PlottedSetting): string {
  const { ci95 } = setting.stats
  const range = ci95 ? ` (${formatInterval(ci95)})` : ''
  return `${describeSetting(setting)}: ${percent(setting.accuracy)}${range}, ${usd(setting.costPerTaskUsd)} per task`
}

function drawLabels(settings: readonly PlottedSetting[], frame: ChartFrame, size: ChartSize): Html {
  const { cost, toY, plot, recommended } = frame
  const points = settings.map(({ model, harness, costPerTaskUsd, accuracy, onFrontier }) => {
    const text = safeText(
      size.kind === 'wide' ? `${safeText(model.label, 28)} · ${safeText(nameHarness(harness), 20)}` : model.label,
      size.labelMax,
    )
    const width = widthOf(text) * CHARACTER_WIDTH_PX * (onFrontier ? 1.06 : 1)
    return { x: cost.toX(costPerTaskUsd), y: toY(accuracy), width, text }
  })
  const whiskers = settings.flatMap(({ costPerTaskUsd, stats: { ci95 } }) => {
    const x = cost.toX(costPerTaskUsd)
    return ci95 ? [{ left: x - 2, right: x + 2, top: toY(ci95.high), bottom: toY(ci95.low) }] : []
  })
  const labels = placeLabels(points, plot, [...whiskers, ...toStepBoxes(settings, { cost, toY, plot })])
  return html`${labels.map((label, index) => {
    const [point, setting] = [points[index], settings[index]]
    if (!label || !point || !setting) return ''
    const gap = setting.id === recommended ? RING_GAP : 0
    return drawLabel({ ...label, x: label.x + LABEL_DIRECTIONS[label.anchor] * gap }, point, setting.onFrontier)
  })}`
}

/** Direction in which a label extends from its point. */
const LABEL_DIRECTIONS: Record<PlacedLabel['anchor'], number> = { start: 1, middle: 0, end: -1 }

/** Boxes around the frontier line, which labels avoid if they can. */
function toStepBoxes(
  settings: readonly PlottedSetting[],
  { cost, toY, plot }: Pick<ChartFrame, 'cost' | 'toY' | 'plot'>,
): Box[] {
  const steps = settings.filter(({ onFrontier }) => onFrontier).toSorted((a, b) => a.costPerTaskUsd - b.costPerTaskUsd)
  return steps.flatMap((step, index) => {
    const next = steps[index + 1]
    const [left, y] = [cost.toX(step.costPerTaskUsd), toY(step.accuracy)]
    const right = next ? cost.toX(next.costPerTaskUsd) : plot.right
    const level = { left, right, top: y - 2, bottom: y + 2 }
    return next ? [level, { left: right - 2, right: right + 2, top: toY(next.accuracy), bottom: y }] : [level]
  })
}

const drawLabel = (label: PlacedLabel, point: { x: number; y: number }, onFrontier: boolean): Html =>
  html`${
    label.hasLeader
      ? html`<line class="leader" x1="${point.x}" y1="${point.y}" x2="${label.x}" y2="${label.y > point.y ? label.y - 11 : label.y + 3}"/>`
      : ''
  }<text class="label ${onFrontier ? 'on' : 'off'}" x="${round(label.x)}" y="${round(label.y)}" text-anchor="${label.anchor}">${label.text}</text>`
