import { readFileSync } from 'node:fs'
import { Marked, type Tokens } from 'marked'

/** Documentation that has a page. Links between these files lead to their pages. */
const PAGES: Record<string, string> = { 'statistics.md': '/methodology', 'attacks.md': '/methodology/attacks' }

type DocumentPage = { title: string; body: string; path: string; sections: { id: string; title: string }[] }

/** Renders a file of `docs/` as HTML. Tags in the Markdown are shown as text. */
export function renderDocument(file: keyof typeof PAGES & string): DocumentPage {
  const text = readFileSync(new URL(`../../docs/${file}`, import.meta.url), 'utf8')
  const sections = [...text.matchAll(/^## (.+)$/gm)].map(([, title = '']) => ({ id: toSlug(title), title }))
  return {
    title: /^# (.+)$/m.exec(text)?.[1] ?? file,
    body: markdown.parse(text, { async: false }),
    path: PAGES[file] ?? '/methodology',
    sections,
  }
}

const escapeHtml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

/** Capitalises text. Markup, such as code, stays as it is. */
const capitalise = (text: string): string => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`

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
      const toRow = (row: Tokens.TableCell[]) =>
        `<tr>${row.map(({ tokens }) => `<td>${this.parser.parseInline(tokens)}</td>`).join('')}</tr>`
      const head = header
        .map(({ tokens }) => `<th scope="col">${capitalise(this.parser.parseInline(tokens))}</th>`)
        .join('')
      const label = escapeHtml(header.map(({ text }) => text).join(', '))
      return `<div class="scroll" role="group" tabindex="0" aria-label="Table: ${label}"><table><thead><tr>${head}</tr></thead><tbody>${rows.map(toRow).join('')}</tbody></table></div>\n`
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
