import type { Release, ReleaseSetting } from '../releases/shapes/schema.ts'
import { escapeXml, formatPercent, formatUsd, markCustom, truncate, widthOf } from './text.ts'

const WIDTH = 760
const PLOT = { left: 64, top: 56, width: 660, height: 300 }
const RIGHT = PLOT.left + PLOT.width
const BOTTOM = PLOT.top + PLOT.height
const ROW_HEIGHT = 20
const ROWS_MAX = 12
const LABEL_MAX = 60

/** Draws accuracy over cost. The frontier is a step line, because no setting exists between two of its points. */
export function drawChart(release: Release): string {
  const frontier = release.frontier.flatMap((id) => release.settings.filter((setting) => setting.id === id))
  const others = release.settings.filter(({ onFrontier }) => !onFrontier)
  const axis = buildCostAxis(release.settings)
  const rows = Math.min(frontier.length, ROWS_MAX) + (frontier.length > ROWS_MAX ? 1 : 0)
  const height = BOTTOM + 64 + rows * ROW_HEIGHT + 16
  const { repository, publisher, settings, tasks, releasedAt } = release
  const title = `${truncate(repository.fullName, 60)}: accuracy and cost of ${settings.length} settings on ${tasks} tasks`
  const legend = 'Bars: 95 % intervals. Filled: on the frontier.'
  const subtitle = `${truncate(publisher.login, 40)}, ${releasedAt.slice(0, 10)}. ${legend}`
  const unit = `USD per task${axis.isLog ? ' (logarithmic)' : ''}`
  return buildSvg(
    {
      viewBox: `0 0 ${WIDTH} ${height}`,
      width: WIDTH,
      height,
      role: 'img',
      'aria-labelledby': 't d',
      'font-family': 'system-ui,Segoe UI,Helvetica,Arial,sans-serif',
      'font-size': 13,
    },
    [
      buildElement('title', { id: 't' }, escapeXml(title)),
      buildElement('desc', { id: 'd' }, escapeXml(describeFrontier(frontier))),
      STYLE,
      buildElement('rect', { class: 'bg', width: WIDTH, height }),
      buildTextElement({ class: 'ink', x: PLOT.left, y: 26, 'font-size': 16, 'font-weight': 600 }, title),
      buildTextElement({ class: 'dim', x: PLOT.left, y: 45 }, subtitle),
      drawAccuracyGrid(),
      axis.ticks.map((usd) => drawCostTick(axis.x(usd), usd)).join('\n'),
      buildTextElement({ class: 'dim', x: PLOT.left + PLOT.width / 2, y: BOTTOM + 40, 'text-anchor': 'middle' }, unit),
      drawSteps(frontier, axis.x),
      [...others, ...frontier].map((setting) => drawPoint(setting, axis.x)).join('\n'),
      frontier.map((setting, index) => drawNumber(setting, index, axis.x)).join('\n'),
      drawList(frontier),
    ],
  )
}

const STYLE = `<style>
:root{color-scheme:light dark}
.bg{fill:#fff}.ink{fill:#1b1f24}.dim{fill:#57606a}.grid{stroke:#d8dee4}.steps{stroke:#0a7d46;fill:none;stroke-width:2}
.on{fill:#0a7d46;stroke:#fff}.off{fill:#fff;stroke:#57606a;stroke-width:1.5}.bar{stroke:#57606a;stroke-width:1}
@media (prefers-color-scheme:dark){.bg{fill:#0d1117}.ink{fill:#e6edf3}.dim{fill:#9198a1}.grid{stroke:#30363d}.steps{stroke:#3fb950}
.on{fill:#3fb950;stroke:#0d1117}.off{fill:#0d1117;stroke:#9198a1}.bar{stroke:#9198a1}}
</style>`

const describeFrontier = (frontier: readonly ReleaseSetting[]): string =>
  frontier
    .slice(0, ROWS_MAX)
    .map((setting, index) => formatRow(setting, index))
    .join('. ')

function formatRow(setting: ReleaseSetting, index: number): string {
  const { model, harness, reasoningLevel, configuration, accuracy, costPerTaskUsd } = setting
  const parts = [model.label, harness, reasoningLevel]
  if (configuration) parts.push(`${configuration.name}@${configuration.version}`)
  const label = markCustom(truncate(parts.join(' · '), LABEL_MAX), setting)
  return `${index + 1}  ${label}: ${formatPercent(accuracy)}, ${formatUsd(costPerTaskUsd)}`
}

const toY = (percent: number): number => round(PLOT.top + PLOT.height * (1 - percent / 100))
const round = (value: number): number => Math.round(value * 10) / 10

const drawAccuracyGrid = (): string =>
  [0, 25, 50, 75, 100]
    .map((percent) => {
      const line = { class: 'grid', x1: PLOT.left, x2: RIGHT, y1: toY(percent), y2: toY(percent) }
      const label = { class: 'dim', x: PLOT.left - 8, y: toY(percent) + 4, 'text-anchor': 'end' }
      return buildElement('line', line) + buildTextElement(label, `${percent} %`)
    })
    .join('\n')

const drawCostTick = (x: number, usd: number): string =>
  buildElement('line', { class: 'grid', x1: x, x2: x, y1: PLOT.top, y2: BOTTOM }) +
  buildTextElement({ class: 'dim', x, y: BOTTOM + 20, 'text-anchor': 'middle' }, formatUsd(usd))

type Axis = { x: (usd: number) => number; ticks: number[]; isLog: boolean }

/** Builds the axis of costs. It is logarithmic if costs differ by more than a factor of five and none is 0, else linear. */
function buildCostAxis(settings: readonly ReleaseSetting[]): Axis {
  const costs = settings.map(({ costPerTaskUsd }) => costPerTaskUsd)
  const [least, most] = [
    costs.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY),
    costs.reduce((a, b) => Math.max(a, b), 0),
  ]
  if (least > 0 && most / least > 5) return buildLogAxis(least, most)
  const top = most > 0 ? most * 1.1 : 1
  const x = (usd: number) => round(PLOT.left + (PLOT.width * usd) / top)
  return { x, ticks: [0, top / 4, top / 2, (3 * top) / 4, top], isLog: false }
}

function buildLogAxis(least: number, most: number): Axis {
  const [low, high] = [Math.floor(Math.log10(least)), Math.ceil(Math.log10(most * 1.01))]
  const x = (usd: number) => round(PLOT.left + (PLOT.width * (Math.log10(usd) - low)) / (high - low))
  return { x, ticks: Array.from({ length: high - low + 1 }, (_, step) => 10 ** (low + step)), isLog: true }
}

function drawSteps(frontier: readonly ReleaseSetting[], x: Axis['x']): string {
  const [first, ...rest] = frontier
  if (!first) return ''
  const path = rest.map((setting) => `H${x(setting.costPerTaskUsd)}V${toY(setting.accuracy)}`).join('')
  return buildElement('path', {
    class: 'steps',
    d: `M${x(first.costPerTaskUsd)} ${toY(first.accuracy)}${path}H${RIGHT}`,
  })
}

function drawPoint(setting: ReleaseSetting, x: Axis['x']): string {
  const { id, accuracy, costPerTaskUsd, onFrontier, stats } = setting
  const { ci95 } = stats
  const pointX = x(costPerTaskUsd)
  const name = `${markCustom(truncate(id, 80), setting)}: ${formatPercent(accuracy)}, ${formatUsd(costPerTaskUsd)}`
  return buildElement(
    'g',
    {},
    buildElement('title', {}, escapeXml(name)),
    ci95 ? buildElement('line', { class: 'bar', x1: pointX, x2: pointX, y1: toY(ci95.low), y2: toY(ci95.high) }) : '',
    buildElement('circle', { class: onFrontier ? 'on' : 'off', cx: pointX, cy: toY(accuracy), r: 5 }),
  )
}

function drawNumber({ costPerTaskUsd, accuracy }: ReleaseSetting, index: number, x: Axis['x']): string {
  if (index >= ROWS_MAX) return ''
  const attributes = { class: 'ink', x: x(costPerTaskUsd) + 8, y: toY(accuracy) - 8, 'font-weight': 600 }
  return buildTextElement(attributes, String(index + 1))
}

function drawList(frontier: readonly ReleaseSetting[]): string {
  const rows = frontier.slice(0, ROWS_MAX).map(formatRow)
  if (frontier.length > ROWS_MAX) rows.push(`and ${frontier.length - ROWS_MAX} more`)
  return rows
    .map((text, index) => buildTextElement({ class: 'ink', x: PLOT.left, y: BOTTOM + 68 + index * ROW_HEIGHT }, text))
    .join('\n')
}

type Attributes = Record<string, string | number>

/** Builds an SVG element. `content` is markup; use `buildTextElement` for text. */
function buildElement(name: string, attributes: Attributes, ...content: string[]): string {
  const start = [
    name,
    ...Object.entries(attributes).map(([key, value]) => `${key}="${escapeXml(String(value))}"`),
  ].join(' ')
  return content.length === 0 ? `<${start}/>` : `<${start}>${content.join('')}</${name}>`
}

/** Builds a text element. The text is escaped. */
const buildTextElement = (attributes: Attributes, text: string): string =>
  buildElement('text', attributes, escapeXml(text))

/** Builds an SVG document with one part per line. */
const buildSvg = (attributes: Attributes, parts: readonly string[]): string =>
  `${buildElement('svg', { xmlns: 'http://www.w3.org/2000/svg', ...attributes }, `\n${parts.join('\n')}\n`)}\n`

const BADGE_HEIGHT = 20
const DARK = '#3b4252'
const GREEN = '#1f6f43'
const FONT = { fill: '#fff', 'font-family': 'Verdana,DejaVu Sans,sans-serif', 'font-size': 11 }
const CHARACTER_WIDTH_PX = 6.6
const PADDING = 8
const BADGE_LABEL_MAX = 32

/** Draws a badge with the most accurate setting of the frontier. */
export function drawBadge(release: Release): string {
  const best = findMostAccurate(release)
  const rightText = best
    ? `${markCustom(truncate(best.model.label, BADGE_LABEL_MAX), best)} ${formatPercent(best.accuracy)} · ${formatUsd(best.costPerTaskUsd)}/task`
    : 'no frontier'
  const leftText = `assay · ${release.tasks} ${release.tasks === 1 ? 'task' : 'tasks'}`
  const [leftWidth, rightWidth] = [measureWidthPx(leftText), measureWidthPx(rightText)]
  const title = `${truncate(release.repository.fullName, 60)}: ${rightText}`
  return buildSvg({ width: leftWidth + rightWidth, height: BADGE_HEIGHT, role: 'img', 'aria-label': title }, [
    buildElement('title', {}, escapeXml(title)),
    buildElement('rect', { width: leftWidth, height: BADGE_HEIGHT, rx: 3, fill: DARK }),
    buildElement('rect', { x: leftWidth, width: rightWidth, height: BADGE_HEIGHT, rx: 3, fill: GREEN }),
    buildElement('rect', { x: leftWidth - 3, width: 6, height: BADGE_HEIGHT, fill: DARK }),
    buildElement('g', FONT, drawText(leftText, 0, leftWidth), drawText(rightText, leftWidth, rightWidth)),
  ])
}

function findMostAccurate({ frontier, settings }: Release): ReleaseSetting | undefined {
  const frontierSettings = frontier.flatMap((id) => settings.filter((setting) => setting.id === id))
  return frontierSettings.reduce<ReleaseSetting | undefined>(
    (best, each) => (!best || each.passed * best.tasks > best.passed * each.tasks ? each : best),
    undefined,
  )
}

const measureWidthPx = (text: string): number => Math.round(widthOf(text) * CHARACTER_WIDTH_PX) + 2 * PADDING

/** Draws a text that is stretched to fit its box, whatever font the viewer has. */
const drawText = (text: string, start: number, width: number): string =>
  buildTextElement(
    { x: start + PADDING, y: 14, textLength: width - 2 * PADDING, lengthAdjust: 'spacingAndGlyphs' },
    text,
  )
