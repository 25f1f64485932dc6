// Answers exactly the queries that Harbor's own client sends. Any other query is a 400.
import { type DatasetVersionRow, isVisible, type RegistryCaller, type Rows } from './package-registry-rows.ts'

/** A query that PostgREST would reject, or that Harbor never sends. */
export class BadQuery extends Error {}

type RegistryQuery = Map<string, string>
type Table = {
  select: string
  filters: string[]
  order?: string
  rows: (rows: Rows, query: RegistryQuery, caller: RegistryCaller) => unknown[]
}

const PACKAGE_FILTERS = ['package.name', 'package.type', 'package.org.name']

const TABLES: Record<string, Table[]> = {
  dataset_version_tag: [
    {
      select: 'dataset_version:dataset_version_id(*),package:package_id!inner(*,org:org_id!inner(name))',
      filters: ['tag', ...PACKAGE_FILTERS],
      rows: (rows, query, caller) =>
        datasets(rows, query, caller)
          .filter(({ tags }) => tags.includes(equalTo(query, 'tag')))
          .map((version) => ({ dataset_version: versionRow(version), package: packageRow(version) })),
    },
  ],
  dataset_version: ['revision', 'content_hash'].map((column) => ({
    select: '*,package:package_id!inner(*,org:org_id!inner(name))',
    filters: [column, ...PACKAGE_FILTERS],
    rows: (rows, query, caller) =>
      datasets(rows, query, caller)
        .map((version) => ({ ...versionRow(version), package: packageRow(version) }))
        .filter((row) => String(column === 'revision' ? row.revision : row.content_hash) === equalTo(query, column)),
  })),
  dataset_version_task: [
    {
      select:
        'task_version:task_version_id(content_hash,archive_path,yanked_at,package:package_id(name,org:org_id(name)))',
      filters: ['dataset_version_id'],
      order: 'task_version_id',
      rows: (rows, query, caller) =>
        (versionById(rows, query, caller)?.tasks ?? [])
          .toSorted((a, b) => (a.id < b.id ? -1 : 1))
          .map((task) => ({ task_version: isVisible(task.package, caller) ? memberRow(task) : null })),
    },
  ],
  dataset_version_file: [
    {
      select: 'path,storage_path,content_hash,size_bytes',
      filters: ['dataset_version_id'],
      order: 'id',
      rows: (rows, query, caller) =>
        (versionById(rows, query, caller)?.files ?? [])
          .toSorted((a, b) => (a.id < b.id ? -1 : 1))
          .map(({ id: _, ...file }) => file),
    },
  ],
  package: [
    {
      select: 'id,type,visibility,org:org_id!inner(name)',
      filters: ['name', 'org.name'],
      rows: (rows, query, caller) =>
        [rows.packages.get(`${equalTo(query, 'org.name')}/${equalTo(query, 'name')}`)]
          .flatMap((found) => (found && isVisible(found, caller) ? [found] : []))
          .map(({ id, type, visibility, org }) => ({ id, type, visibility, org: { name: org } })),
    },
  ],
}

const PAGE_MAX = 1000

/** Returns one page of rows and the total, in the format of PostgREST. */
export function answer(rows: Rows, table: string, params: URLSearchParams, caller: RegistryCaller) {
  const query = new Map(params)
  if (query.size !== [...params].length) throw new BadQuery('a parameter stands twice')
  const known = (TABLES[table] ?? []).find((each) => fits(each, query))
  if (!known) throw new BadQuery(`unknown query on ${table}: ${params}`)
  const all = known.rows(rows, query, caller)
  const offset = numberOf(query.get('offset') ?? '0')
  const limit = Math.min(numberOf(query.get('limit') ?? String(PAGE_MAX)), PAGE_MAX)
  return { page: all.slice(offset, offset + limit), offset, total: all.length }
}

function fits({ select, filters, order }: Table, query: RegistryQuery): boolean {
  const named = [...query.keys()].filter((name) => !['select', 'order', 'limit', 'offset'].includes(name))
  return (
    query.get('select') === select &&
    query.get('order') === order &&
    named.toSorted().join() === filters.toSorted().join() &&
    named.every((name) => query.get(name)?.startsWith('eq.'))
  )
}

function numberOf(text: string): number {
  if (!/^\d+$/.test(text)) throw new BadQuery('limit and offset are numbers')
  return Number(text)
}

const equalTo = (query: RegistryQuery, name: string): string => query.get(name)?.slice('eq.'.length) ?? ''

function datasets(rows: Rows, query: RegistryQuery, caller: RegistryCaller): DatasetVersionRow[] {
  if (equalTo(query, 'package.type') !== 'dataset') throw new BadQuery('dataset versions belong to datasets')
  return rows.datasetVersions.filter(
    ({ package: { org, name, ...rest } }) =>
      org === equalTo(query, 'package.org.name') &&
      name === equalTo(query, 'package.name') &&
      isVisible({ org, name, ...rest }, caller),
  )
}

const versionById = (rows: Rows, query: RegistryQuery, caller: RegistryCaller): DatasetVersionRow | undefined =>
  rows.datasetVersions.find(
    (version) => version.id === equalTo(query, 'dataset_version_id') && isVisible(version.package, caller),
  )

const packageRow = ({ package: { org, ...rest } }: DatasetVersionRow) => ({ ...rest, org: { name: org } })

function versionRow({ package: { id }, tags: _, tasks: __, files: ___, ...columns }: DatasetVersionRow) {
  return { ...columns, package_id: id, authors: null, readme: null, published_at: new Date(0).toISOString() }
}

function memberRow({
  content_hash,
  archive_path,
  yanked_at,
  package: { org, name },
}: DatasetVersionRow['tasks'][number]) {
  return { content_hash, archive_path, yanked_at, package: { name, org: { name: org } } }
}
