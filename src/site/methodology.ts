import { readFileSync } from 'node:fs'
import { Marked, type Tokens } from 'marked'

/** Documentation that has a page. Links between these files lead to their pages. */
const PAGES: Record<string, string> = { 'statistics.md': '/methodology', 'attacks.md': '/methodology/attacks' }

/** Renders a file of `docs/` as HTML. Tags in the Markdown are shown as text. */
export function renderDocument(file: keyof typeof PAGES & string): { title: string; body: string; path: string } {
  const text = readFileSync(new URL(`../../docs/${file}`, import.meta.url), 'utf8')
  const title = /^# (.+)$/m.exec(text)?.[1] ?? file
  return { title, body: markdown.parse(text, { async: false }), path: PAGES[file] ?? '/methodology' }
}

const escapeHtml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

const toSlug = (text: string): string =>
  text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]+/gu, '-')
    .replaceAll(/^-|-$/g, '')

const markdown = new Marked({
  renderer: {
    html: ({ text }: Tokens.HTML | Tokens.Tag) => escapeHtml(text),
    image: ({ text }: Tokens.Image) => escapeHtml(text),
    heading({ tokens, depth, text }: Tokens.Heading) {
      return `<h${depth} id="${toSlug(text)}">${this.parser.parseInline(tokens)}</h${depth}>\n`
    },
    link({ href, tokens }: Tokens.Link) {
      const label = this.parser.parseInline(tokens)
      const target = toTarget(href)
      return target === undefined ? label : `<a href="${escapeHtml(target)}">${label}</a>`
    },
    table({ header, rows }: Tokens.Table) {
      const cells = (row: Tokens.TableCell[], tag: string) =>
        `<tr>${row.map(({ tokens }) => `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`).join('')}</tr>`
      const label = escapeHtml(header.map(({ text }) => text).join(', '))
      return `<div class="scroll" role="group" tabindex="0" aria-label="Table: ${label}"><table><thead>${cells(header, 'th scope="col"').replaceAll('</th scope="col">', '</th>')}</thead><tbody>${rows.map((row) => cells(row, 'td')).join('')}</tbody></table></div>\n`
    },
  },
})

/** Returns the page of a linked file. Files without a page are named without a link. */
function toTarget(href: string): string | undefined {
  const [file = '', anchor] = href.split('#')
  if (/^https:\/\//.test(href)) return href
  const path = file === '' ? '' : PAGES[file]
  return path === undefined ? undefined : `${path}${anchor === undefined ? '' : `#${anchor}`}`
}
