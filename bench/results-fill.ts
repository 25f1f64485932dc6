import pg from 'pg'

type FillSize = {
  repositories: number
  publishers: number
  releases: number
  /** Full name of the repository with the one really published release. */
  model: string
}

/**
 * Creates many releases from a template. The functions build rows from the values that differ between releases. For the
 * template's own values they must reproduce its rows byte for byte, otherwise nothing is filled.
 */
export async function openFill(url: string, size: FillSize) {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await defineRows(client, size.model)
  await requireFaithful(client, size.model)
  await insertPlaces(client, size)
  return {
    /** Inserts the newest release of each line, and the line. Returns the seconds. */
    heads: () => timed(client, () => insertHeads(client, size)),
    /** Inserts the earlier releases. */
    others: () => timed(client, () => insertReleases(client, size, 1, size.releases - 1)),
    close: () => client.end(),
  }
}

const ROW = `'"repository":{"id":' || repository_id || ',"fullName":' || to_json(full_name) || '},"publisher":{"login":'
  || to_json(login) || ',"kind":' || to_json(kind) || '}'`
const RELEASE = `'"releaseId":"' || id || '","releasedAt":' || to_json(moment)`
const GIVEN = 'id uuid, moment text, repository_id bigint, full_name text, login text, kind text'
const LISTED = 'id, moment, repository_id, full_name, login, kind'

/** Columns that are the same in every release. */
async function defineRows(client: pg.Client, model: string): Promise<void> {
  const { rows } = await client.query(
    `select document, card, search from result_lines join releases on releases.id = release_id where name_key = $1`,
    [model],
  )
  const [{ document, card, search }] = rows
  const after = (text: string): string =>
    literal(text.slice(text.indexOf(',"tasks":')).replace(/,"defaultLine".*$/, ''))
  const others = literal(search.split('\n').slice(2).join('\n'))
  await client.query(`
    create function pg_temp.document(${GIVEN}) returns text language sql stable as
      $$ select '{"schemaVersion":1,' || ${RELEASE} || ',' || ${ROW} || ${after(document)} $$;
    create function pg_temp.line(${GIVEN}) returns text language sql stable as
      $$ select '{"release":' || pg_temp.document(${LISTED}) || ',"endorsed":false}' $$;
    create function pg_temp.card(${GIVEN}, is_default boolean) returns text language sql stable as
      $$ select '{' || ${ROW} || ',' || ${RELEASE} || ${after(card)} || ',"defaultLine":' || is_default || '}' $$;
    create function pg_temp.search(full_name text, login text) returns text language sql stable as
      $$ select lower(full_name || E'\\n' || login) || E'\\n' || ${others} $$;
    create function pg_temp.wire_time(at timestamptz) returns text language sql stable as
      $$ select to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') $$`)
}

const literal = (text: string): string => pg.escapeLiteral(text)

async function requireFaithful(client: pg.Client, model: string): Promise<void> {
  const { rows } = await client.query(
    `with model as (
       select r.*, w.login, w.kind, r.owner || '/' || r.name as full_name, pg_temp.wire_time(r.released_at) as moment
       from releases as r join workspaces as w on w.id = r.workspace_id where lower(r.owner || '/' || r.name) = $1)
     select m.document = pg_temp.document(${LISTED.replace('id,', 'm.id,')}) as document, l.line = pg_temp.line(${LISTED.replace('id,', 'm.id,')}) as line,
       l.card = pg_temp.card(${LISTED.replace('id,', 'm.id,')}, l.is_default) as card, l.search = pg_temp.search(full_name, login) as search
     from model as m join result_lines as l on l.release_id = m.id`,
    [model],
  )
  const unlike = Object.entries(rows[0] ?? { all: false }).filter(([, isSame]) => isSame !== true)
  if (rows.length !== 1 || unlike.length > 0)
    throw new Error(`Filled rows are not what publishing writes: ${unlike.map(([name]) => name).join(', ')}`)
}

async function insertPlaces(client: pg.Client, { publishers, repositories }: FillSize): Promise<void> {
  await client.query(
    `insert into workspaces (id, login, name, kind)
     select gen_random_uuid(), 'org-' || n, 'Org', 'org' from generate_series(1, $1::int) as n`,
    [publishers],
  )
  await client.query(
    `insert into repositories (workspace_id, id, owner, name, source_kind, host, visibility)
     select workspaces.id, 1000 + n, 'owner-' || n % 1000, 'repo-' || n, 'github', 'github.com', 'public'
     from workspaces cross join generate_series(1, $1::int) as n where login like 'org-%'`,
    [repositories],
  )
}

/** Releases are an hour apart; within an hour the first publisher's is the newest. Ids have the same order. */
const FILLED = `
  select *, (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '7' || substr(hash, 1, 3) || '8'
    || substr(hash, 4, 15))::uuid as release_id, pg_temp.wire_time(at) as moment
  from (
    select r.key, r.workspace_id, r.id as repository_id, r.owner, r.name, r.owner || '/' || r.name as full_name,
      w.login, w.kind, n as sequence, md5(r.key || '/' || n) as hash,
      '2026-01-01Z'::timestamptz + make_interval(hours => n) + make_interval(secs => r.id % 3000)
        - make_interval(secs => 0.001 * right(w.login, 1)::int) as at
    from repositories as r join workspaces as w on w.id = r.workspace_id cross join generate_series($1::int, $2::int) as n
    where w.login like 'org-%'
  ) as place`
const OF = 'release_id, moment, repository_id, full_name, login, kind'

async function insertHeads(client: pg.Client, size: FillSize): Promise<void> {
  const { releases } = size
  await insertReleases(client, size, releases, releases)
  await client.query(
    `insert into result_lines
       (repository, name_key, release_id, released_at, publisher, is_default, search, card, line)
     select key, lower(full_name), release_id, at, login, login = 'org-1', pg_temp.search(full_name, login),
       pg_temp.card(${OF}, login = 'org-1'), pg_temp.line(${OF})
     from (${FILLED}) as filled`,
    [releases, releases],
  )
}

/** Disables foreign-key checks, because every row refers to rows just created, and creates two indexes afterwards. */
async function insertReleases(client: pg.Client, { model }: FillSize, from: number, to: number): Promise<void> {
  const { rows: indexes } = await client.query(
    `select indexname, indexdef from pg_indexes where tablename = 'releases' and indexname in ('releases_named', 'releases_same')`,
  )
  await client.query('begin')
  await client.query(`set local session_replication_role = replica`)
  for (const { indexname } of indexes) await client.query(`drop index ${indexname}`)
  await client.query(
    `insert into releases (id, workspace_id, repository, sequence, source_kind, host, repository_id, owner, name, released_at,
       fingerprint, content_hash, picks, document)
     select release_id, filled.workspace_id, key, filled.sequence, 'github', 'github.com', filled.repository_id, filled.owner,
       filled.name, at, model.fingerprint, model.content_hash, model.picks, pg_temp.document(${OF.replace('repository_id', 'filled.repository_id')})
     from (${FILLED}) as filled cross join (select fingerprint, content_hash, picks from releases where lower(owner || '/' || name) = $3) as model
     order by filled.sequence, key`,
    [from, to, model],
  )
  for (const { indexdef } of indexes) await client.query(indexdef)
  await client.query('commit')
}

async function timed(client: pg.Client, work: () => Promise<void>): Promise<number> {
  const started = performance.now()
  await work()
  await client.query('vacuum analyze releases, result_lines')
  return (performance.now() - started) / 1000
}
