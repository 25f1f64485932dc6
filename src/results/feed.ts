import type { Card } from './schema.ts'
import { percentText, usdText, xml } from './text.ts'

/** RFC 4287. The newest card says when the feed changed; without any it never did. */
export function feedOf(cards: readonly Card[], publicUrl: string): string {
  const updated = cards[0]?.releasedAt ?? '1970-01-01T00:00:00.000Z'
  const self = xml(`${publicUrl}/api/public/results.atom`)
  return `<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom">
<id>${self}</id>
<title>Assay: published results</title>
<updated>${updated}</updated>
<link rel="self" type="application/atom+xml" href="${self}"/>
${cards.map((card) => entry(card, publicUrl)).join('\n')}
</feed>
`
}

const entry = (
  { repository, publisher, releaseId, releasedAt, tasks, settings, frontier }: Card,
  publicUrl: string,
) => {
  const href = `${publicUrl}/api/public/results/${repository.fullName.toWellFormed().split('/').map(encodeURIComponent).join('/')}`
  const lines = frontier.map(
    ({ id, accuracy, costPerTaskUsd }) => `${id}: ${percentText(accuracy)}, ${usdText(costPerTaskUsd)} for each task`,
  )
  return `<entry>
<id>urn:uuid:${xml(releaseId)}</id>
<title>${xml(`${repository.fullName}: ${settings} settings on ${tasks} tasks`)}</title>
<author><name>${xml(publisher.login)}</name></author>
<updated>${releasedAt}</updated>
<link href="${xml(href)}"/>
<summary>${xml(lines.join('; '))}</summary>
</entry>`
}
