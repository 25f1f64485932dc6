import { html } from 'hono/html'
import type { ListedCard } from '../../../src/site/schema.ts'
import { plural, publisherPath, renderName, safeText } from '../../components/format.ts'
import { renderPage, type Site } from '../../components/layout.ts'
import { renderResultCard } from '../../components/result-card.ts'

/** Renders the results of one publisher, newest first. */
export function renderPublisherPage(site: Site, login: string, listed: readonly ListedCard[]): string {
  const cards = listed.map(({ card }) => card)
  const shownLogin = cards[0]?.publisher.login ?? login
  const endorsedCount = cards.filter((card) => card.endorsed).length
  const tasks = cards.reduce((sum, card) => sum + card.tasks, 0)
  const content = html`<section><p class="where muted">Publisher</p><h1>${renderName(shownLogin)}</h1>
<p class="answer">Published results of ${plural(cards.length, 'repository', 'repositories')}, on ${plural(tasks, 'task')}. <span class="muted">${describeEndorsements(endorsedCount, cards.length)}</span></p></section>
<ul class="cards">${listed.map(({ card, language }) => renderResultCard(card, language))}</ul>`
  return renderPage(site, {
    title: safeText(shownLogin),
    description: `Results that ${safeText(shownLogin)} has published.`,
    path: publisherPath(shownLogin),
    content,
  })
}

function describeEndorsements(endorsedCount: number, cardCount: number): string {
  if (endorsedCount === 0) return 'No owner of these repositories has endorsed them.'
  if (endorsedCount < cardCount)
    return `${endorsedCount} of them ${endorsedCount === 1 ? 'is' : 'are'} endorsed by the owner of the repository.`
  return cardCount === 1 ? 'The owner of the repository endorses them.' : 'The owners of the repositories endorse them.'
}
