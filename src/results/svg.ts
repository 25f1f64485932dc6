import { escapeXml } from './text.ts'

type Attributes = Record<string, string | number>

/** Builds an SVG element. `content` is markup; use `textElement` for text. */
export function element(name: string, attributes: Attributes, ...content: string[]): string {
  const start = [
    name,
    ...Object.entries(attributes).map(([key, value]) => `${key}="${escapeXml(String(value))}"`),
  ].join(' ')
  return content.length === 0 ? `<${start}/>` : `<${start}>${content.join('')}</${name}>`
}

/** Builds a text element. The text is escaped. */
export const textElement = (attributes: Attributes, text: string): string =>
  element('text', attributes, escapeXml(text))

/** Builds an SVG document with one part per line. */
export const svg = (attributes: Attributes, parts: readonly string[]): string =>
  `${element('svg', { xmlns: 'http://www.w3.org/2000/svg', ...attributes }, `\n${parts.join('\n')}\n`)}\n`
