import type { Release } from '../../src/releases/shapes/schema.ts'
import { apiPath, publisherPath, releasePath, repositoryPath, safeText, withQuery } from './format.ts'
import type { Site } from './layout.ts'

/** Describes a release as a schema.org Dataset, so that search engines for data find it. */
export function describeDataset({ publicUrl }: Site, release: Release): Record<string, unknown> {
  const { repository, publisher, releaseId, releasedAt, tasks, settings, disclosure } = release
  const fullName = safeText(repository.fullName)
  const login = safeText(publisher.login)
  const { from, to } = disclosure.comparisons
  return {
    '@context': 'https://schema.org',
    '@type': 'Dataset',
    name: `Coding agents on ${fullName}`,
    description: `Accuracy with 95 % intervals, cost per task and frontier of ${settings.length} settings (model, coding agent, reasoning level) on ${tasks} tasks made from merged pull requests of ${fullName}.`,
    url: `${publicUrl}${repositoryPath(repository.fullName)}`,
    identifier: `${publicUrl}${releasePath(repository.fullName, releaseId)}`,
    version: releaseId,
    datePublished: releasedAt,
    isAccessibleForFree: true,
    creator: { '@type': 'Organization', name: login, url: `${publicUrl}${publisherPath(publisher.login)}` },
    variableMeasured: ['accuracy', 'cost per task (USD)', '95 % interval', 'rank range', 'frontier probability'],
    measurementTechnique: `${publicUrl}/methodology`,
    ...(from && to ? { temporalCoverage: `${from}/${to}` } : {}),
    distribution: [
      toDownload(
        'application/json',
        `${publicUrl}${apiPath(repository.fullName)}/releases/${encodeURIComponent(releaseId)}`,
      ),
      toDownload(
        'text/csv',
        `${publicUrl}${withQuery(`${apiPath(repository.fullName)}/results.csv`, { publisher: publisher.login })}`,
      ),
    ],
  }
}

const toDownload = (encodingFormat: string, contentUrl: string) => ({
  '@type': 'DataDownload',
  encodingFormat,
  contentUrl,
})
