import type { Card } from './schema.ts'
import { escapeXml, formatPercent, formatUsd } from './text.ts'

/** Renders an Atom feed (RFC 4287). It was updated when the newest release was published. */
export function toAtomFeed(cards: readonly Card[], publicUrl: string): string {
  const updated = cards[0]?.releasedAt ?? '1970-01-01T00:00:00.000Z'
  const self = escapeXml(`${publicUrl}/api/public/results.atom`)
  return `<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom">
<id>${self}</id>
<title>Assay: published results</title>
<updated>${updated}</updated>
<link rel="self" type="application/atom+xml" href="${self}"/>
${cards.map((card) => toAtomEntry(card, publicUrl)).join('\n')}
</feed>
`
}

const toAtomEntry = (
  { repository, publisher, releaseId, releasedAt, tasks, settings, frontier }: Card,
  publicUrl: string,
) => {
  const href = `${publicUrl}/api/public/results/${repository.fullName.toWellFormed().split('/').map(encodeURIComponent).join('/')}`
  const lines = frontier.map(
    ({ id, accuracy, costPerTaskUsd }) => `${id}: ${formatPercent(accuracy)}, ${formatUsd(costPerTaskUsd)} per task`,
  )
  return `<entry>
<id>urn:uuid:${escapeXml(releaseId)}</id>
<title>${escapeXml(`${repository.fullName}: ${settings} settings on ${tasks} tasks`)}</title>
<author><name>${escapeXml(publisher.login)}</name></author>
<updated>${releasedAt}</updated>
<link href="${escapeXml(href)}"/>
<summary>${escapeXml(lines.join('; '))}</summary>
</entry>`
}
