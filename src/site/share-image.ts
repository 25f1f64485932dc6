import type { SKRSContext2D } from '@napi-rs/canvas'
import type { Release, ReleaseSetting } from '../releases/shapes/schema.ts'
import { formatUsd, truncate } from '../results/text.ts'
import { findFontPath } from './assets.ts'

const [WIDTH, HEIGHT, EDGE] = [1200, 630, 64]
const PLOT = { left: 114, top: 300, right: WIDTH - EDGE, bottom: 540 }
const COLOURS = {
  paper: '#faf9f5',
  ink: '#1d1c18',
  muted: '#5d5a50',
  line: '#e4e1d6',
  gold: '#8a5f00',
  grey: '#8d897c',
}
const [SANS, SERIF] = ['Assay Sans', 'Assay Serif']

/** Loads the drawing library on first use, because most processes never draw and it takes tens of megabytes. */
async function loadCanvas() {
  const canvas = await import('@napi-rs/canvas')
  if (canvas.GlobalFonts.has(SANS)) return canvas
  canvas.GlobalFonts.registerFromPath(findFontPath('inter'), SANS)
  canvas.GlobalFonts.registerFromPath(findFontPath('source-serif-4'), SERIF)
  return canvas
}

/** Draws the picture that services show beside a link: the best setting and the frontier, 1200 × 630 pixels, as PNG. */
export async function drawShareImage(release: Release, recommended: string | undefined): Promise<Uint8Array> {
  const { createCanvas } = await loadCanvas()
  const canvas = createCanvas(WIDTH, HEIGHT)
  const context = canvas.getContext('2d')
  context.fillStyle = COLOURS.paper
  context.fillRect(0, 0, WIDTH, HEIGHT)
  drawHeading(context, release, recommended)
  drawFrontier(context, release)
  return canvas.encode('png')
}

type TextStyle = { size: number; family?: string; weight?: number; colour?: string; align?: 'left' | 'right' }

function write(context: SKRSContext2D, text: string, [x, y]: [number, number], style: TextStyle): void {
  context.font = `${style.weight ?? 400} ${style.size}px "${style.family ?? SANS}"`
  context.fillStyle = style.colour ?? COLOURS.ink
  context.textAlign = style.align ?? 'left'
  context.fillText(text, x, y, WIDTH - 2 * EDGE)
}

function drawHeading(context: SKRSContext2D, release: Release, recommended: string | undefined): void {
  const { repository, tasks, settings, frontier, publisher, releasedAt } = release
  write(context, 'Assay', [EDGE, 84], { size: 30, family: SERIF, weight: 600 })
  write(context, `${truncate(publisher.login, 30)} · ${releasedAt.slice(0, 10)}`, [WIDTH - EDGE, 84], {
    size: 24,
    colour: COLOURS.muted,
    align: 'right',
  })
  write(context, truncate(repository.fullName, 42), [EDGE, 160], { size: 58, family: SERIF, weight: 600 })
  const best = settings.find(({ id }) => id === recommended) ?? findMostAccurate(settings, frontier)
  const answer = best
    ? `${truncate(best.model.label, 32)} with ${truncate(best.harness, 24)}: ${Math.round(best.accuracy)} % of ${tasks} tasks, ${formatUsd(best.costPerTaskUsd)} each`
    : `${settings.length} settings on ${tasks} tasks`
  write(context, answer, [EDGE, 216], { size: 30, colour: COLOURS.muted })
}

const findMostAccurate = (
  settings: readonly ReleaseSetting[],
  frontier: readonly string[],
): ReleaseSetting | undefined =>
  settings.filter(({ id }) => frontier.includes(id)).toSorted((a, b) => b.accuracy - a.accuracy)[0]

/** Draws all settings by cost and accuracy with their intervals, and the frontier as a step line. */
function drawFrontier(context: SKRSContext2D, { settings, frontier }: Release): void {
  const costs = settings.map(({ costPerTaskUsd }) => Math.log(Math.max(costPerTaskUsd, 1e-6)))
  const [low, high] = [Math.min(...costs), Math.max(...costs)]
  const toX = ({ costPerTaskUsd }: ReleaseSetting): number =>
    PLOT.left +
    40 +
    ((Math.log(Math.max(costPerTaskUsd, 1e-6)) - low) / (high - low || 1)) * (PLOT.right - PLOT.left - 120)
  const toY = (percent: number): number => PLOT.bottom - (percent / 100) * (PLOT.bottom - PLOT.top)
  drawGrid(context, toY)
  const steps = frontier.flatMap((id) => settings.filter((setting) => setting.id === id))
  drawSteps(context, steps, { toX, toY })
  const others = settings.filter(({ onFrontier }) => !onFrontier)
  for (const setting of [...others, ...steps]) drawPoint(context, setting, { x: toX(setting), toY })
  write(context, 'cost per task, log scale', [PLOT.right, PLOT.bottom + 46], {
    size: 22,
    colour: COLOURS.muted,
    align: 'right',
  })
}

function drawGrid(context: SKRSContext2D, toY: (percent: number) => number): void {
  for (const percent of [0, 50, 100]) {
    context.fillStyle = COLOURS.line
    context.fillRect(PLOT.left + 30, toY(percent), PLOT.right - PLOT.left - 30, 2)
    write(context, `${percent} %`, [PLOT.left + 14, toY(percent) + 8], {
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
