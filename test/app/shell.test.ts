import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { BUILD_FOLDER } from '../../src/workspace-app/build.ts'
import { workspaceAppRoutes } from '../../src/workspace-app/routes.ts'
import { newKey } from '../../src/workspaces/key.ts'
import { createKey, deleteSession } from '../../src/workspaces/schema.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { findViolations, openBrowser, openPage, savePictures, signIn } from '../support/browser.ts'

let app: TestApp
let browser: Browser

beforeAll(async () => {
  ;[app, browser] = await Promise.all([testApp(), openBrowser()])
})
afterAll(async () => {
  await browser.close()
  await app[Symbol.asyncDispose]()
})

describe('the built files', () => {
  const BROWSER = { accept: 'text/html' }

  test('every address below /app is the same page, with a strict policy', async () => {
    for (const path of ['/app', '/app/', '/app/comparisons', '/app/repos/a/b/comparisons/1?setting=x%7Cy']) {
      const { status, headers, text } = await app.fetch(path, { headers: BROWSER })
      expect([status, headers.get('content-type')], path).toEqual([200, 'text/html; charset=utf-8'])
      const policy = headers.get('content-security-policy') ?? ''
      expect(policy).toContain("default-src 'none'")
      expect(policy).toContain("frame-ancestors 'none'")
      expect(policy).not.toContain('unsafe')
      expect(headers.get('cache-control')).toBe('private, no-cache')
      expect(text).not.toMatch(/<script(?![^>]*src=)|<style|style=/)
    }
  })

  test('assets are compressed and cached for ever; other names are not found', async () => {
    const { text } = await app.fetch('/app')
    const paths = [...text.matchAll(/(?:src|href)="(\/app\/assets\/[^"]+)"/g)].map(([, path = '']) => path)
    expect(paths.length).toBeGreaterThan(1)
    for (const path of paths) {
      const { status, headers } = await app.fetch(path, { headers: { 'accept-encoding': 'br' } })
      expect([status, headers.get('content-encoding')], path).toEqual([200, 'br'])
      expect(headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
    }
    for (const path of ['/app/assets/nothing.js', '/app/assets/..%2f..%2f..%2fpackage.json', '/app/assets/index.html'])
      expect((await app.fetch(path)).status, path).toBe(404)
  })

  test('the first load has at most 120 kB of compressed JavaScript, and no schemas', async () => {
    const { text } = await app.fetch('/app')
    const scripts = [...text.matchAll(/\/app\/(assets\/[^"]+\.js)"/g)].map(([, name = '']) => name)
    const code = scripts.map((name) => readFileSync(join(BUILD_FOLDER, name)))
    const bytes = code.reduce((sum, each) => sum + gzipSync(each).byteLength, 0)
    expect(bytes).toBeLessThan(120_000)
    const all = readdirSync(join(BUILD_FOLDER, 'assets')).filter((name) => name.endsWith('.js'))
    for (const name of all) expect(readFileSync(join(BUILD_FOLDER, 'assets', name), 'utf8')).not.toContain('ZodError')
  })

  test('a missing build is a problem that tells what to do, not a crash', async () => {
    const page = workspaceAppRoutes('/nonexistent').find(({ endpoint }) => endpoint.id === 'showApp')
    const call = { acceptEncoding: 'br' } as never
    await expect(page?.handle(call, undefined)).rejects.toMatchObject({ kind: { code: 'app_not_built', status: 503 } })
  })
})

describe('signing in', () => {
  test('a key opens the page that was asked for; signing out ends the session', async () => {
    await using opened = await openPage(browser, app.url)
    const { page, context } = opened
    await signIn(page, app.adminKey, '/app/no-such-page')
    await page.getByRole('heading', { name: 'Page not found' }).waitFor()
    const [cookie] = await context.cookies()
    expect(cookie).toMatchObject({ name: 'assay_session', httpOnly: true, sameSite: 'Lax' })
    expect(await page.evaluate('document.cookie')).toBe('')

    await page.goto('/app')
    await page.getByRole('heading', { name: 'Overview' }).waitFor()
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByLabel('Workspace key').waitFor()
    await page.reload()
    await page.getByLabel('Workspace key').waitFor()
    expect(opened.errors).toEqual([])
  })

  test('a wrong key is refused beside the field', async () => {
    await using opened = await openPage(browser, app.url)
    await opened.page.goto('/app')
    await opened.page.getByLabel('Workspace key').fill(newKey())
    await opened.page.keyboard.press('Enter')
    await opened.page.getByRole('alert').filter({ hasText: 'malformed, expired or revoked' }).waitFor()
    expect(await findViolations(opened.page)).toEqual([])
    await savePictures(opened.page, 'sign-in')
  })

  test('a change with the cookie but without the CSRF token is refused', async () => {
    await using opened = await openPage(browser, app.url)
    await signIn(opened.page, app.adminKey)
    const forged = await opened.page.request.delete(deleteSession.path)
    expect([forged.status(), (await forged.json()).code]).toEqual([403, 'csrf_token_invalid'])
  })

  test('a session that ends while the app is open leads back to the sign-in page', async () => {
    const { body } = await app.call(createKey, { body: { name: 'short', permission: 'read' } })
    await using opened = await openPage(browser, app.url)
    await signIn(opened.page, body.key)
    await app.database.pool.query('delete from sessions where key_id = $1', [body.id])
    await opened.page.reload()
    await opened.page.getByLabel('Workspace key').waitFor()
  })
})

describe('the shell', () => {
  test('pages have no accessibility violations in both themes, on a screen and on a phone', async () => {
    await using opened = await openPage(browser, app.url)
    const { page } = opened
    await signIn(page, app.adminKey)
    await page.getByRole('heading', { name: 'Overview' }).waitFor()
    expect(await findViolations(page)).toEqual([])
    await page.setViewportSize({ width: 360, height: 740 })
    await page.getByRole('button', { name: 'Menu' }).click()
    expect(await findViolations(page)).toEqual([])
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360)
    expect(opened.errors).toEqual([])
  })

  test('every page of the navigation opens in an empty workspace, without violations, and fits on a phone', async () => {
    await using opened = await openPage(browser, app.url)
    const { page, errors } = opened
    await signIn(page, app.adminKey)
    const entries = page.getByRole('navigation', { name: 'Main' }).getByRole('link')
    await entries.first().waitFor()
    const labels = await entries.allInnerTexts()
    expect(labels.length).toBeGreaterThan(12)
    for (const label of labels) {
      await page.keyboard.press('Control+k')
      await page.getByRole('combobox', { name: 'Page or command' }).fill(label)
      await page.keyboard.press('Enter')
      await page.getByRole('heading', { name: label, level: 1 }).waitFor()
      await page.getByText('Loading…').first().waitFor({ state: 'detached' })
      expect(await findViolations(page), label).toEqual([])
      await page.setViewportSize({ width: 360, height: 740 })
      expect(await page.evaluate('document.documentElement.scrollWidth'), label).toBeLessThanOrEqual(360)
      await page.setViewportSize({ width: 1440, height: 900 })
    }
    expect(errors).toEqual([])
  })

  test('the palette opens with a shortcut and runs a command without a mouse', async () => {
    await using opened = await openPage(browser, app.url)
    const { page } = opened
    await signIn(page, app.adminKey, '/app/comparisons')
    await page.keyboard.press('Control+k')
    await page.getByRole('combobox').pressSequentially('over')
    expect(await findViolations(page)).toEqual([])
    await savePictures(page, 'palette')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Overview' }).waitFor()
  })
})
