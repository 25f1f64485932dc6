import type { Release, ReleaseSetting } from '../releases/shapes/schema.ts'
import { percentText, short, usdText, widthOf, xml } from './text.ts'

const LETTER = 6.6
const PADDING = 8
const LABEL_MAX = 32

/** The most accurate setting of the frontier, in one line. */
export function badgeOf(release: Release): string {
  const best = mostAccurate(release)
  const right = best
    ? `${short(best.model.label, LABEL_MAX)} ${percentText(best.accuracy)} · ${usdText(best.costPerTaskUsd)}/task`
    : 'no frontier'
  const left = `assay · ${release.tasks} ${release.tasks === 1 ? 'task' : 'tasks'}`
  const [a, b] = [widthPx(left), widthPx(right)]
  const title = xml(`${short(release.repository.fullName, 60)}: ${right}`)
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${a + b}" height="20" role="img" aria-label="${title}">
<title>${title}</title>
<rect width="${a}" height="20" rx="3" fill="#3b4252"/><rect x="${a}" width="${b}" height="20" rx="3" fill="#1f6f43"/><rect x="${a - 3}" width="6" height="20" fill="#3b4252"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
${words(left, 0, a)}
${words(right, a, b)}
</g>
</svg>
`
}

function mostAccurate({ frontier, settings }: Release): ReleaseSetting | undefined {
  const all = frontier.flatMap((id) => settings.filter((setting) => setting.id === id))
  return all.reduce<ReleaseSetting | undefined>(
    (best, each) => (!best || each.passed * best.tasks > best.passed * each.tasks ? each : best),
    undefined,
  )
}

const widthPx = (text: string): number => Math.round(widthOf(text) * LETTER) + 2 * PADDING

const words = (text: string, start: number, width: number): string =>
  `<text x="${start + PADDING}" y="14" textLength="${width - 2 * PADDING}" lengthAdjust="spacingAndGlyphs">${xml(text)}</text>`
