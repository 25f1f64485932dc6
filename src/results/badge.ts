import type { Release, ReleaseSetting } from '../releases/shapes/schema.ts'
import { element, svg, textElement } from './svg.ts'
import { escapeXml, formatPercent, formatUsd, markCustom, truncate, widthOf } from './text.ts'

const HEIGHT = 20
const DARK = '#3b4252'
const GREEN = '#1f6f43'
const FONT = { fill: '#fff', 'font-family': 'Verdana,DejaVu Sans,sans-serif', 'font-size': 11 }
const CHARACTER_WIDTH_PX = 6.6
const PADDING = 8
const LABEL_MAX = 32

/** Draws a badge with the most accurate setting of the frontier. */
export function drawBadge(release: Release): string {
  const best = mostAccurate(release)
  const right = best
    ? `${markCustom(truncate(best.model.label, LABEL_MAX), best)} ${formatPercent(best.accuracy)} · ${formatUsd(best.costPerTaskUsd)}/task`
    : 'no frontier'
  const left = `assay · ${release.tasks} ${release.tasks === 1 ? 'task' : 'tasks'}`
  const [leftWidth, rightWidth] = [widthPx(left), widthPx(right)]
  const title = `${truncate(release.repository.fullName, 60)}: ${right}`
  return svg({ width: leftWidth + rightWidth, height: HEIGHT, role: 'img', 'aria-label': title }, [
    element('title', {}, escapeXml(title)),
    element('rect', { width: leftWidth, height: HEIGHT, rx: 3, fill: DARK }),
    element('rect', { x: leftWidth, width: rightWidth, height: HEIGHT, rx: 3, fill: GREEN }),
    element('rect', { x: leftWidth - 3, width: 6, height: HEIGHT, fill: DARK }),
    element('g', FONT, drawText(left, 0, leftWidth), drawText(right, leftWidth, rightWidth)),
  ])
}

function mostAccurate({ frontier, settings }: Release): ReleaseSetting | undefined {
  const all = frontier.flatMap((id) => settings.filter((setting) => setting.id === id))
  return all.reduce<ReleaseSetting | undefined>(
    (best, each) => (!best || each.passed * best.tasks > best.passed * each.tasks ? each : best),
    undefined,
  )
}

const widthPx = (text: string): number => Math.round(widthOf(text) * CHARACTER_WIDTH_PX) + 2 * PADDING

/** Draws a text that is stretched to fit its box, whatever font the viewer has. */
const drawText = (text: string, start: number, width: number): string =>
  textElement({ x: start + PADDING, y: 14, textLength: width - 2 * PADDING, lengthAdjust: 'spacingAndGlyphs' }, text)
