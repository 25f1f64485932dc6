import { xml } from './text.ts'

type Attributes = Record<string, string | number>

/** An element of a picture. What stands in it is elements; words go through `words`. */
export function element(name: string, attributes: Attributes, ...content: string[]): string {
  const start = [name, ...Object.entries(attributes).map(([key, value]) => `${key}="${xml(String(value))}"`)].join(' ')
  return content.length === 0 ? `<${start}/>` : `<${start}>${content.join('')}</${name}>`
}

/** Whatever it says, it stays text. */
export const words = (attributes: Attributes, text: string): string => element('text', attributes, xml(text))

/** A whole picture, each of its parts on a line of its own. */
export const svg = (attributes: Attributes, parts: readonly string[]): string =>
  `${element('svg', { xmlns: 'http://www.w3.org/2000/svg', ...attributes }, `\n${parts.join('\n')}\n`)}\n`
