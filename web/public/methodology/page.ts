import { html, raw } from 'hono/html'
import { renderPage, type Site } from '../../components/layout.ts'

/** A page of the documentation. Its HTML was rendered from our own Markdown with every tag in it escaped. */
type DocumentPage = {
  title: string
  body: string
  path: string
  sections: readonly { id: string; title: string }[]
}

const PAGES = [
  ['/methodology', 'Statistics'],
  ['/methodology/attacks', 'Attacks on the verdict'],
] as const

/** Renders a page of the documentation: how numbers are computed, or which attacks were tried. */
export const renderMethodologyPage = (site: Site, { title, body, path, sections }: DocumentPage): string =>
  renderPage(site, {
    title: `Methodology: ${title}`,
    description: 'How accuracy, cost, intervals, ranks and the frontier are measured, and how verdicts are protected.',
    path,
    content: html`<nav class="tabs small" aria-label="Methodology">${PAGES.map(
      ([href, label]) => html`<a href="${href}" ${href === path ? html`aria-current="page"` : ''}>${label}</a>`,
    )}</nav><div class="document"><article class="prose">${raw(body)}</article>
<nav class="contents small" aria-label="Contents"><ul>${sections.map(({ id, title: section }) => html`<li><a class="plain" href="#${id}">${section}</a></li>`)}</ul></nav></div>`,
  })
