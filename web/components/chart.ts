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
  /** True if costs are computed with today's prices, not with those of the release. */
  usesTodaysPrices?: boolean | undefined
  /** Id of the recommended setting. */
  recommendedId?: string | undefined
}

type ChartSize = {
  kind: 'wide' | 'narrow'
  width: number
  height: number
  labelLengthMax: number
  costTicksMax: number
}

const WIDE: ChartSize = { kind: 'wide', width: 920, height: 400, labelLengthMax: 44, costTicksMax: 8 }
const NARROW: ChartSize = { kind: 'narrow', width: 340, height: 330, labelLengthMax: 20, costTicksMax: 5 }
/** Width of an average character of a label. Labels of the frontier are bold and therefore wider. */
const CHARACTER_PX = 6.9
const BOLD_FACTOR = 1.06
/** Radius of the ring around the recommended point. */
const RING_RADIUS = 9
/** Additional distance between the recommended point, which has a ring, and its label. */
const RING_GAP = 4

/** Area, scales and recommended setting of one drawing. */
type ChartFrame = AccuracyScale & { plot: Box; costScale: CostScale; recommendedId: string | undefined }

/**
 * Draws accuracy over cost with 95 % intervals. The frontier is a step line, because no setting exists between two of
 * its points. There are two drawings, of which the stylesheet shows the one that fits the screen.
 */
export const drawFrontierChart = (release: ChartRelease, options: ChartOptions = {}): Html =>
  html`${drawChart(release, WIDE, options)}${drawChart(release, NARROW, options)}`

function drawChart({ settings, frontier, prices }: ChartRelease, size: ChartSize, options: ChartOptions): Html {
  const { usesTodaysPrices, recommendedId } = options
  const frontierSettings = frontier.flatMap((id) => settings.filter((setting) => setting.id === id))
  const others = settings.filter((setting) => !frontier.includes(setting.id))
  const frame = toFrame(settings, size, recommendedId)
  const { plot, costScale } = frame
  const releasePrices = prices.at ? formatDate(prices.at) : 'the trials'
  const priceNote = size.kind === 'wide' ? `, prices of ${usesTodaysPrices ? 'today' : releasePrices}` : ''
  const caption = `cost per task${costScale.isLog ? ', log scale' : ''}${priceNote}`
  const summary = `Accuracy against cost per task of ${plural(settings.length, 'setting')}, ${frontierSettings.length} on the frontier. The table below has all numbers.`
  return html`<svg class="chart ${size.kind}" viewBox="0 0 ${size.width} ${size.height}" role="img" aria-label="${summary}">
${drawAxes(frame, size)}
<text class="tick" x="${plot.right}" y="${size.height - 6}" text-anchor="end">${caption}</text>
${drawSteps(frontierSettings, frame)}
${[...others, ...frontierSettings].map((setting) => drawPoint(setting, frame))}
${drawLabels([...frontierSettings.toReversed(), ...others], frame, size)}
</svg>`
}

function toFrame(settings: readonly PlottedSetting[], size: ChartSize, recommendedId: string | undefined): ChartFrame {
  const plot = { left: 46, top: 14, right: size.width - 10, bottom: size.height - 46 }
  const costs = settings.map(({ costPerTaskUsd }) => costPerTaskUsd)
  const costScale = toCostScale(costs, plot, size.costTicksMax)
  return { plot, ...toAccuracyScale(settings, plot), costScale, recommendedId }
}

const drawAxes = ({ plot, costScale, toY, accuracyTicks }: ChartFrame, { height }: ChartSize): Html =>
  html`${accuracyTicks.map(
    (tick) =>
      html`<line class="grid" x1="${plot.left}" x2="${plot.right}" y1="${toY(tick)}" y2="${toY(tick)}"/><text class="tick" x="${plot.left - 8}" y="${toY(tick) + 4}" text-anchor="end">${tick} %</text>`,
  )}${costScale.ticks.map(
    (tick) =>
      html`<line class="notch" x1="${costScale.toX(tick)}" x2="${costScale.toX(tick)}" y1="${plot.bottom}" y2="${plot.bottom + 5}"/><text class="tick" x="${costScale.toX(tick)}" y="${height - 26}" text-anchor="middle">${usd(tick)}</text>`,
  )}`

/** Draws the frontier as a step line, and the area above it, which no setting attains. */
function drawSteps(frontier: readonly PlottedSetting[], { costScale, toY, plot }: ChartFrame): Html {
  const [first, ...rest] = frontier
  if (!first) return html``
  const start = costScale.toX(first.costPerTaskUsd)
  const steps = rest.map((each) => `H${costScale.toX(each.costPerTaskUsd)}V${toY(each.accuracy)}`).join('')
  const line = `M${start},${toY(first.accuracy)}${steps}H${plot.right}`
  return html`<path class="unattained" d="${line}V${plot.top}H${start}Z"/><path class="steps" d="${line}"/>`
}

function drawPoint(setting: PlottedSetting, { costScale, toY, recommendedId }: ChartFrame): Html {
  const { id, accuracy, costPerTaskUsd, onFrontier, stats } = setting
  const x = costScale.toX(costPerTaskUsd)
  const { ci95 } = stats
  return html`<g class="${onFrontier ? 'on' : 'off'}"><title>${describePoint(setting)}</title>${
    ci95 ? html`<line class="whisker" x1="${x}" x2="${x}" y1="${toY(ci95.low)}" y2="${toY(ci95.high)}"/>` : ''
  }<circle cx="${x}" cy="${toY(accuracy)}" r="${onFrontier ? 6 : 4.5}"/>${id === recommendedId ? html`<circle class="ring" cx="${x}" cy="${toY(accuracy)}" r="${RING_RADIUS}"/>` : ''}</g>`
}

function describePoint(setting: PlottedSetting): string {
  const { ci95 } = setting.stats
  const range = ci95 ? ` (${formatInterval(ci95)})` : ''
  return `${describeSetting(setting)}: ${percent(setting.accuracy)}${range}, ${usd(setting.costPerTaskUsd)} per task`
}

function drawLabels(settings: readonly PlottedSetting[], frame: ChartFrame, size: ChartSize): Html {
  const { costScale, toY, plot, recommendedId } = frame
  const points = settings.map(({ model, harness, costPerTaskUsd, accuracy, onFrontier }) => {
    const text = safeText(
      size.kind === 'wide' ? `${safeText(model.label, 28)} · ${safeText(nameHarness(harness), 20)}` : model.label,
      size.labelLengthMax,
    )
    const width = widthOf(text) * CHARACTER_PX * (onFrontier ? BOLD_FACTOR : 1)
    return { x: costScale.toX(costPerTaskUsd), y: toY(accuracy), width, text }
  })
  const whiskers = settings.flatMap(({ costPerTaskUsd, stats: { ci95 } }) => {
    const x = costScale.toX(costPerTaskUsd)
    return ci95 ? [{ left: x - 2, right: x + 2, top: toY(ci95.high), bottom: toY(ci95.low) }] : []
  })
  const labels = placeLabels(points, plot, [...whiskers, ...toStepBoxes(settings, frame)])
  return html`${labels.map((label, index) => {
    const [point, setting] = [points[index], settings[index]]
    if (!label || !point || !setting) return ''
    const gap = setting.id === recommendedId ? RING_GAP : 0
    return drawLabel({ ...label, x: label.x + LABEL_DIRECTIONS[label.anchor] * gap }, point, setting.onFrontier)
  })}`
}

/** Direction in which a label extends from its point. */
const LABEL_DIRECTIONS: Record<PlacedLabel['anchor'], number> = { start: 1, middle: 0, end: -1 }

/** Returns boxes around the frontier line, which labels avoid if they can. */
function toStepBoxes(settings: readonly PlottedSetting[], { costScale, toY, plot }: ChartFrame): Box[] {
  const steps = settings.filter(({ onFrontier }) => onFrontier).toSorted((a, b) => a.costPerTaskUsd - b.costPerTaskUsd)
  return steps.flatMap((step, index) => {
    const next = steps[index + 1]
    const [left, y] = [costScale.toX(step.costPerTaskUsd), toY(step.accuracy)]
    const right = next ? costScale.toX(next.costPerTaskUsd) : plot.right
    const horizontal = { left, right, top: y - 2, bottom: y + 2 }
    if (!next) return [horizontal]
    return [horizontal, { left: right - 2, right: right + 2, top: toY(next.accuracy), bottom: y }]
  })
}

const drawLabel = (label: PlacedLabel, point: { x: number; y: number }, onFrontier: boolean): Html =>
  html`${
    label.hasLeader
      ? html`<line class="leader" x1="${point.x}" y1="${point.y}" x2="${label.x}" y2="${label.y > point.y ? label.y - 11 : label.y + 3}"/>`
      : ''
  }<text class="label ${onFrontier ? 'on' : 'off'}" x="${round(label.x)}" y="${round(label.y)}" text-anchor="${label.anchor}">${label.text}</text>`
