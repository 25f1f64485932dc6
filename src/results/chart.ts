import type { Release, ReleaseSetting } from '../releases/shapes/schema.ts'
import { percentText, short, usdText, xml } from './text.ts'

const WIDTH = 760
const PLOT = { left: 64, top: 56, width: 660, height: 300 }
const ROW = 20
const ROWS_MAX = 12
const LABEL_MAX = 60

/** Cost to the right, accuracy upwards; the frontier as steps, since nobody can buy what lies between two settings. */
export function chartOf(release: Release): string {
  const frontier = release.frontier.flatMap((id) => release.settings.filter((setting) => setting.id === id))
  const others = release.settings.filter(({ onFrontier }) => !onFrontier)
  const axis = costAxis(release.settings)
  const rows = Math.min(frontier.length, ROWS_MAX) + (frontier.length > ROWS_MAX ? 1 : 0)
  const height = PLOT.top + PLOT.height + 64 + rows * ROW + 16
  const title = xml(
    `${short(release.repository.fullName, 60)}: accuracy and cost of ${release.settings.length} settings on ${release.tasks} tasks`,
  )
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="t d" font-family="system-ui,Segoe UI,Helvetica,Arial,sans-serif" font-size="13">
<title id="t">${title}</title>
<desc id="d">${xml(described(frontier))}</desc>
<style>
:root{color-scheme:light dark}
.bg{fill:#fff}.ink{fill:#1b1f24}.dim{fill:#57606a}.grid{stroke:#d8dee4}.steps{stroke:#0a7d46;fill:none;stroke-width:2}
.on{fill:#0a7d46;stroke:#fff}.off{fill:#fff;stroke:#57606a;stroke-width:1.5}.bar{stroke:#57606a;stroke-width:1}
@media (prefers-color-scheme:dark){.bg{fill:#0d1117}.ink{fill:#e6edf3}.dim{fill:#9198a1}.grid{stroke:#30363d}.steps{stroke:#3fb950}
.on{fill:#3fb950;stroke:#0d1117}.off{fill:#0d1117;stroke:#9198a1}.bar{stroke:#9198a1}}
</style>
<rect class="bg" width="${WIDTH}" height="${height}"/>
<text class="ink" x="${PLOT.left}" y="26" font-size="16" font-weight="600">${title}</text>
<text class="dim" x="${PLOT.left}" y="45">${xml(`${short(release.publisher.login, 40)}, ${release.releasedAt.slice(0, 10)}. Bars: 95 % intervals. Filled: on the frontier.`)}</text>
${accuracyGrid()}
${axis.ticks.map((usd) => costTick(axis.x(usd), usd)).join('\n')}
<text class="dim" x="${PLOT.left + PLOT.width / 2}" y="${PLOT.top + PLOT.height + 40}" text-anchor="middle">USD for each task${axis.isLog ? ' (logarithmic)' : ''}</text>
${steps(frontier, axis.x)}
${[...others, ...frontier].map((setting) => point(setting, axis.x)).join('\n')}
${frontier.map((setting, place) => number(setting, place, axis.x)).join('\n')}
${legend(frontier)}
</svg>
`
}

const described = (frontier: readonly ReleaseSetting[]): string =>
  frontier
    .slice(0, ROWS_MAX)
    .map((setting, place) => row(setting, place))
    .join('. ')

const row = ({ model, harness, reasoningLevel, accuracy, costPerTaskUsd }: ReleaseSetting, place: number): string =>
  `${place + 1}  ${short(`${model.label} · ${harness} · ${reasoningLevel}`, LABEL_MAX)}: ${percentText(accuracy)}, ${usdText(costPerTaskUsd)}`

const y = (percent: number): number => round(PLOT.top + PLOT.height * (1 - percent / 100))
const round = (value: number): number => Math.round(value * 10) / 10

function accuracyGrid(): string {
  return [0, 25, 50, 75, 100]
    .map(
      (percent) =>
        `<line class="grid" x1="${PLOT.left}" x2="${PLOT.left + PLOT.width}" y1="${y(percent)}" y2="${y(percent)}"/><text class="dim" x="${PLOT.left - 8}" y="${y(percent) + 4}" text-anchor="end">${percent} %</text>`,
    )
    .join('\n')
}

const costTick = (x: number, usd: number): string =>
  `<line class="grid" x1="${x}" x2="${x}" y1="${PLOT.top}" y2="${PLOT.top + PLOT.height}"/><text class="dim" x="${x}" y="${PLOT.top + PLOT.height + 20}" text-anchor="middle">${xml(usdText(usd))}</text>`

type Axis = { x: (usd: number) => number; ticks: number[]; isLog: boolean }

/** By factors where costs differ by factors, and none is 0. */
function costAxis(settings: readonly ReleaseSetting[]): Axis {
  const costs = settings.map(({ costPerTaskUsd }) => costPerTaskUsd)
  const [least, most] = [
    costs.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY),
    costs.reduce((a, b) => Math.max(a, b), 0),
  ]
  if (least > 0 && most / least > 5) return logAxis(least, most)
  const top = most > 0 ? most * 1.1 : 1
  const x = (usd: number) => round(PLOT.left + (PLOT.width * usd) / top)
  return { x, ticks: [0, top / 4, top / 2, (3 * top) / 4, top], isLog: false }
}

function logAxis(least: number, most: number): Axis {
  const [low, high] = [Math.floor(Math.log10(least)), Math.ceil(Math.log10(most * 1.01))]
  const x = (usd: number) => round(PLOT.left + (PLOT.width * (Math.log10(usd) - low)) / (high - low))
  return { x, ticks: Array.from({ length: high - low + 1 }, (_, step) => 10 ** (low + step)), isLog: true }
}

function steps(frontier: readonly ReleaseSetting[], x: Axis['x']): string {
  const [first, ...rest] = frontier
  if (!first) return ''
  const path = rest.map((setting) => `H${x(setting.costPerTaskUsd)}V${y(setting.accuracy)}`).join('')
  return `<path class="steps" d="M${x(first.costPerTaskUsd)} ${y(first.accuracy)}${path}H${PLOT.left + PLOT.width}"/>`
}

function point(setting: ReleaseSetting, x: Axis['x']): string {
  const [at, { ci95 }] = [x(setting.costPerTaskUsd), setting.stats]
  const bar = ci95 ? `<line class="bar" x1="${at}" x2="${at}" y1="${y(ci95.low)}" y2="${y(ci95.high)}"/>` : ''
  const name = xml(`${short(setting.id, 80)}: ${percentText(setting.accuracy)}, ${usdText(setting.costPerTaskUsd)}`)
  return `<g><title>${name}</title>${bar}<circle class="${setting.onFrontier ? 'on' : 'off'}" cx="${at}" cy="${y(setting.accuracy)}" r="5"/></g>`
}

const number = (setting: ReleaseSetting, place: number, x: Axis['x']): string =>
  place < ROWS_MAX
    ? `<text class="ink" x="${x(setting.costPerTaskUsd) + 8}" y="${y(setting.accuracy) - 8}" font-weight="600">${place + 1}</text>`
    : ''

function legend(frontier: readonly ReleaseSetting[]): string {
  const top = PLOT.top + PLOT.height + 68
  const rows = frontier.slice(0, ROWS_MAX).map(row)
  if (frontier.length > ROWS_MAX) rows.push(`and ${frontier.length - ROWS_MAX} more`)
  return rows
    .map((text, place) => `<text class="ink" x="${PLOT.left}" y="${top + place * ROW}">${xml(text)}</text>`)
    .join('\n')
}
