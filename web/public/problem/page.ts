import { html } from 'hono/html'
import { type Html, releasePath, renderName } from '../../components/format.ts'
import { renderPage, type Site } from '../../components/layout.ts'

/** A problem response. A problem about withdrawn results also has `releaseId` and `repository`. */
type ProblemFacts = { status: number; title: string; detail: string; requestId: string } & Record<string, unknown>

const DETAIL_LENGTH_MAX = 1200

/** Renders a problem as a page: what happened, and what the reader can do. */
export const renderProblemPage = (site: Site, problem: ProblemFacts): string =>
  renderPage(site, {
    title: `${problem.status} ${problem.title}`,
    description: problem.title,
    content: html`<section class="problem"><p class="small muted">${problem.status}</p><h1>${problem.title}</h1>
<p class="lead">${renderName(problem.detail, DETAIL_LENGTH_MAX)}</p>
${renderHelp(problem)}
<p class="small faint">Request ${problem.requestId}</p></section>`,
  })

function renderHelp({ status, releaseId, repository }: ProblemFacts): Html {
  if (typeof releaseId === 'string' && typeof repository === 'string')
    return html`<p>The withdrawn release stays readable, marked as withdrawn. <a href="${releasePath(repository, releaseId)}">Show the withdrawn release</a> · <a href="/">All results</a></p>`
  if (status >= 500)
    return html`<p>This is an error of the service. Try again. If the error persists, send the request id below to the operator.</p>`
  return html`<p>The address may be misspelled, or its results are not public. Search for a repository above, or see <a href="/">all results</a>.</p>`
}
