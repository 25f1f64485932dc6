import { html } from 'hono/html'
import type { ListedCard, ResultsView } from '../../../src/site/schema.ts'
import { formatLanguage, type Html, parseSettingId, plural, safeText, withQuery } from '../../components/format.ts'
import { renderCopyText, renderPage, type Site } from '../../components/layout.ts'
import { renderResultCard } from '../../components/result-card.ts'
import { labelHarness, renderSelect } from '../../components/settings-table.ts'

const CARDS_PER_PAGE = 48
/** Maximum number of values in the list of a filter. */
const FILTER_VALUES_MAX = 100

/** Renders the list of published results, newest first. */
export function renderResultsPage(site: Site, cards: readonly ListedCard[], view: ResultsView): string {
  const hasNoResults = cards.length === 0 && !view.q
  const matching = cards.filter((card) => matchesFilters(card, view))
  const page = view.page ?? 1
  const shown = matching.slice((page - 1) * CARDS_PER_PAGE, page * CARDS_PER_PAGE)
  const content = hasNoResults
    ? renderFirstSteps()
    : html`<section><h1>Results</h1>
<p class="lead muted">Which model, coding agent and reasoning level works best on a team’s own code, and what it costs.</p>
${renderFilters(cards, view)}
${shown.length === 0 ? '' : html`<p class="small muted" role="status">${plural(matching.length, 'result')}, newest first</p>`}</section>
${shown.length === 0 ? renderNoMatch() : html`<ul class="cards">${shown.map(({ card, language }) => renderResultCard(card, language))}</ul>`}
${renderPaging(matching.length, page, view)}`
  const description = 'Published results: which model, coding agent and reasoning level works best, and what it costs.'
  return renderPage(site, { title: 'Results', description, path: '/', hasSearch: true, content })
}

/** Returns true if the language matches, and one setting of the frontier has both the provider and the harness. */
function matchesFilters({ card: { frontier }, language }: ListedCard, view: ResultsView): boolean {
  if (view.language && language !== view.language) return false
  if (!view.provider && !view.harness) return true
  return frontier
    .map(({ id }) => parseSettingId(id))
    .some(
      ({ provider, harness }) =>
        (!view.provider || provider === view.provider) && (!view.harness || harness === view.harness),
    )
}

function renderFilters(cards: readonly ListedCard[], { q, provider, harness, language }: ResultsView): Html {
  const settings = cards.flatMap(({ card }) => card.frontier.map(({ id }) => parseSettingId(id)))
  const listDistinct = (values: readonly string[]) => [...new Set(values)].sort().slice(0, FILTER_VALUES_MAX)
  const languages = listDistinct(cards.flatMap((each) => each.language ?? []))
  return html`<form class="filters" role="search" action="/" method="get">
<label><span class="small muted">Find a repository, publisher or model</span> <input type="search" name="q" maxlength="200" value="${safeText(q ?? '', 200)}"></label>
${languages.length === 0 ? '' : renderSelect('language', 'Language', languages, language, formatLanguage)}${renderSelect('provider', 'Provider', listDistinct(settings.map((each) => each.provider)), provider)}${renderSelect('harness', 'Harness', listDistinct(settings.map((each) => each.harness)), harness, labelHarness)}
<button class="button" type="submit">Filter</button></form>`
}

function renderPaging(cardCount: number, page: number, view: ResultsView): Html {
  const pageCount = Math.ceil(cardCount / CARDS_PER_PAGE)
  if (pageCount < 2) return html``
  const renderLink = (to: number, label: string) =>
    to >= 1 && to <= pageCount
      ? html`<a class="button" href="${withQuery('/', { ...view, page: to === 1 ? undefined : to })}">${label}</a>`
      : ''
  return html`<nav class="paging" aria-label="Pages of results">${renderLink(page - 1, 'Newer')} <span class="muted small">Page ${page} of ${pageCount}</span> ${renderLink(page + 1, 'Older')}</nav>`
}

const renderNoMatch = (): Html =>
  html`<div class="card panel"><h2>No result matches</h2><p class="muted">The search looks at the names of repositories, publishers and models. <a href="/">Show all results</a></p></div>`

/** Renders the page of a service without results: how to publish the first one. */
const renderFirstSteps = (): Html => html`<section class="empty"><h1>No results yet</h1>
<p class="answer">Assay measures which model, coding agent and reasoning level works best on your own code, and what it costs. <span class="muted">Published results appear here.</span></p>
<div class="card panel"><h2>Your first result, in three commands</h2>
<ol class="steps-list"><li>${renderCopyText('step-1', 'Create tasks from merged pull requests, then approve them in the app', 'bin/assay repos connect acme/widgets --public && bin/assay batches create --repo acme/widgets --easy 5')}</li>
<li>${renderCopyText('step-2', 'Compare settings on the approved tasks', 'bin/assay compare --repo acme/widgets --model anthropic/claude-sonnet-5@high=claude-code --model openai/gpt-5.6-sol@high=codex --budget 5')}</li>
<li>${renderCopyText('step-3', 'Publish', 'bin/assay releases publish --repo acme/widgets')}</li></ol>
<p class="small muted">The commands need <code>ASSAY_URL</code> and <code>ASSAY_KEY</code>; the server printed the first key when it started for the first time. Tasks wait for approval in the <a href="/app">app</a>. The <a href="/docs">API reference</a> describes every operation.</p></div></section>`
