import type { SKRSContext2D } from '@napi-rs/canvas'
import { findHarness } from '../harnesses/harnesses.ts'
import type { Release, ReleaseSetting } from '../releases/shapes/schema.ts'
import { formatUsd, truncate } from '../results/text.ts'
import { requireFontPath } from './assets.ts'

const WIDTH = 1200
const HEIGHT = 630
const EDGE = 64
const PLOT = { left: 114, top: 330, right: WIDTH - EDGE, bottom: 530 }
/** The cheapest and the most expensive setting are this far from the edges of the plot, so that their points fit. */
const POINTS = { left: PLOT.left + 70, right: PLOT.right - 80 }
const COLOURS = {
  paper: '#faf9f5',
  ink: '#1d1c18',
  muted: '#5d5a50',
  line: '#e4e1d6',
  gold: '#8a5f00',
  grey: '#8d897c',
}
const SANS = 'Assay Sans'
const SERIF = 'Assay Serif'

/** Loads the drawing library on first use, because most processes never draw and it takes tens of megabytes. */
async function loadCanvas() {
  const canvas = await import('@napi-rs/canvas')
  if (canvas.GlobalFonts.has(SANS)) return canvas
  canvas.GlobalFonts.registerFromPath(requireFontPath('inter'), SANS)
  canvas.GlobalFonts.registerFromPath(requireFontPath('source-serif-4'), SERIF)
  return canvas
}

/** Draws the picture that services show beside a link: the best setting and the frontier, 1200 × 630 pixels, as PNG. */
export async function drawShareImage(release: Release, recommended: string | undefined): Promise<Uint8Array> {
  const { createCanvas } = await loadCanvas()
  const canvas = createCanvas(WIDTH, HEIGHT)
  const context = canvas.getContext('2d')
  context.fillStyle = COLOURS.paper
  context.fillRect(0, 0, WIDTH, HEIGHT)
  const { settings, frontier } = release
  const shown = settings.find(({ id }) => id === recommended) ?? findMostAccurate(settings, frontier)
  drawHeading(context, release, { shown, isRecommended: shown !== undefined && shown.id === recommended })
  drawFrontier(context, release, shown)
  return canvas.encode('png')
}

type TextStyle = {
  size: number
  family?: string
  weight?: number
  colour?: string
  align?: 'left' | 'right' | 'center'
}

function writeText(context: SKRSContext2D, text: string, [x, y]: [number, number], style: TextStyle): void {
  context.font = `${style.weight ?? 400} ${style.size}px "${style.family ?? SANS}"`
  context.fillStyle = style.colour ?? COLOURS.ink
  context.textAlign = style.align ?? 'left'
  context.fillText(text, x, y, WIDTH - 2 * EDGE)
}

const DATE_FORMAT = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'long',
  year: 'numeric',
  timeZone: 'UTC',
})

type ShownSetting = { shown: ReleaseSetting | undefined; isRecommended: boolean }

function drawHeading(context: SKRSContext2D, release: Release, { shown, isRecommended }: ShownSetting): void {
  const { repository, tasks, settings, publisher, releasedAt } = release
  writeText(context, 'Assay', [EDGE, 80], { size: 28, family: SERIF, weight: 600, colour: COLOURS.muted })
  writeText(
    context,
    `${truncate(publisher.login, 30)} · ${DATE_FORMAT.format(new Date(releasedAt))}`,
    [WIDTH - EDGE, 80],
    {
      size: 24,
      colour: COLOURS.muted,
      align: 'right',
    },
  )
  writeText(context, truncate(repository.fullName, 50), [EDGE, 146], { size: 36, family: SERIF })
  if (!shown) {
    writeText(context, `${settings.length} settings on ${tasks} tasks`, [EDGE, 212], ANSWER_STYLE)
    return
  }
  const program = `${truncate(shown.model.label, 32)} with ${nameHarness(shown)}`
  writeText(context, isRecommended ? `Use ${program}` : `Most accurate: ${program}`, [EDGE, 212], ANSWER_STYLE)
  drawResult(context, shown, tasks)
}

const ANSWER_STYLE: TextStyle = { size: 44, family: SERIF, weight: 600 }

const nameHarness = ({ harness }: ReleaseSetting): string => truncate(findHarness(harness)?.name ?? harness, 24)

/** Draws the accuracy with its interval, smaller and greyer, and the cost. */
function drawResult(
  context: SKRSContext2D,
  { accuracy, costPerTaskUsd, stats: { ci95 } }: ReleaseSetting,
  tasks: number,
): void {
  const interval = ci95 ? `(${Math.round(ci95.low)}–${Math.round(ci95.high)}) ` : ''
  const parts: [string, TextStyle][] = [
    [`${Math.round(accuracy)} % `, ANSWER_STYLE],
    [interval, { size: 30, colour: COLOURS.muted }],
    [`of ${tasks} tasks for `, { size: 36, family: SERIF }],
    [formatUsd(costPerTaskUsd), ANSWER_STYLE],
    [' each', { size: 36, family: SERIF }],
  ]
  let x = EDGE
  for (const [text, style] of parts) {
    writeText(context, text, [x, 272], style)
    x += context.measureText(text).width
  }
}

const findMostAccurate = (
  settings: readonly ReleaseSetting[],
  frontier: readonly string[],
): ReleaseSetting | undefined =>
  settings.filter(({ id }) => frontier.includes(id)).toSorted((a, b) => b.accuracy - a.accuracy)[0]

/** Draws all settings by cost and accuracy with their intervals, and the frontier as a step line. */
function drawFrontier(
  context: SKRSContext2D,
  { settings, frontier }: Release,
  shown: ReleaseSetting | undefined,
): void {
  const toLog = (usd: number): number => Math.log(Math.max(usd, 1e-6))
  const costs = settings.map(({ costPerTaskUsd }) => toLog(costPerTaskUsd))
  const [low, high] = [Math.min(...costs), Math.max(...costs)]
  const toCostX = (usd: number): number =>
    POINTS.left + ((toLog(usd) - low) / (high - low || 1)) * (POINTS.right - POINTS.left)
  const toX = ({ costPerTaskUsd }: ReleaseSetting): number => toCostX(costPerTaskUsd)
  const toY = (percent: number): number => PLOT.bottom - (percent / 100) * (PLOT.bottom - PLOT.top)
  drawGrid(context, toY)
  drawCostTicks(context, listTicks(Math.exp(low), Math.exp(high)), toCostX)
  const steps = frontier.flatMap((id) => settings.filter((setting) => setting.id === id))
  drawSteps(context, steps, { toX, toY })
  const others = settings.filter(({ onFrontier }) => !onFrontier)
  for (const setting of [...others, ...steps]) drawPoint(context, setting, { x: toX(setting), toY })
  if (shown) labelPoint(context, shown, [toX(shown), toY(shown.stats.ci95?.high ?? shown.accuracy)])
  writeText(context, 'cost per task, log scale', [PLOT.right, PLOT.bottom + 76], {
    size: 20,
    colour: COLOURS.muted,
    align: 'right',
  })
}

const TICKS_MAX = 6

/** Lists round amounts between the cheapest and the most expensive setting, at most six. */
function listTicks(least: number, most: number): number[] {
  const [first, last] = [Math.floor(Math.log10(least)), Math.ceil(Math.log10(most))]
  const powers = Array.from({ length: last - first + 1 }, (_, step) => 10 ** (first + step))
  const amounts = powers.flatMap((power) => [1, 2, 5].map((digit) => Number((digit * power).toPrecision(1))))
  const inside = amounts.filter((usd) => usd >= least * 0.99 && usd <= most * 1.01)
  return inside.filter((_, index) => index % Math.ceil(inside.length / TICKS_MAX) === 0)
}

function drawCostTicks(context: SKRSContext2D, ticks: readonly number[], toCostX: (usd: number) => number): void {
  for (const usd of ticks) {
    context.fillStyle = COLOURS.grey
    context.fillRect(toCostX(usd) - 1, PLOT.bottom, 2, 10)
    writeText(context, usd < 0.01 ? formatUsd(usd) : `$${usd.toFixed(2)}`, [toCostX(usd), PLOT.bottom + 38], {
      size: 22,
      colour: COLOURS.muted,
      align: 'center',
    })
  }
}

/** Writes the name of a setting above its interval, inside the picture. */
function labelPoint(context: SKRSContext2D, { model }: ReleaseSetting, [x, top]: [number, number]): void {
  const text = truncate(model.label, 28)
  context.font = `600 24px "${SANS}"`
  const half = context.measureText(text).width / 2
  const centre = Math.min(Math.max(x, EDGE + half), WIDTH - EDGE - half)
  writeText(context, text, [centre, Math.max(top - 12, PLOT.top - 8)], { size: 24, weight: 600, align: 'center' })
}

function drawGrid(context: SKRSContext2D, toY: (percent: number) => number): void {
  for (const percent of [0, 50, 100]) {
    context.fillStyle = COLOURS.line
    context.fillRect(PLOT.left + 30, toY(percent), PLOT.right - PLOT.left - 30, 2)
    writeText(context, `${percent} %`, [PLOT.left + 14, toY(percent) + 8], {
      size: 22,
      colour: COLOURS.muted,
      align: 'right',
    })
  }
}

type Axes = { toX: (setting: ReleaseSetting) => number; toY: (percent: number) => number }

function drawSteps(context: SKRSContext2D, steps: readonly ReleaseSetting[], { toX, toY }: Axes): void {
  const [first] = steps
  if (!first) return
  context.beginPath()
  context.moveTo(toX(first), toY(first.accuracy))
  let level = first.accuracy
  for (const step of steps) {
    context.lineTo(toX(step), toY(level))
    context.lineTo(toX(step), toY(step.accuracy))
    level = step.accuracy
  }
  context.lineTo(PLOT.right, toY(level))
  context.strokeStyle = COLOURS.gold
  context.lineWidth = 4
  context.stroke()
}

function drawPoint(
  context: SKRSContext2D,
  { accuracy, onFrontier, stats: { ci95 } }: ReleaseSetting,
  { x, toY }: { x: number; toY: Axes['toY'] },
): void {
  const colour = onFrontier ? COLOURS.gold : COLOURS.grey
  if (ci95) {
    context.globalAlpha = 0.4
    context.fillStyle = colour
    context.fillRect(x - 1.5, toY(ci95.high), 3, toY(ci95.low) - toY(ci95.high))
    context.globalAlpha = 1
  }
  context.beginPath()
  context.arc(x, toY(accuracy), onFrontier ? 11 : 8, 0, 2 * Math.PI)
  context.fillStyle = onFrontier ? colour : COLOURS.paper
  context.fill()
  context.strokeStyle = onFrontier ? COLOURS.paper : colour
  context.lineWidth = 3
  context.stroke()
}
