import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readRepository } from '../../src/repos/schema.ts'
import { createKey } from '../../src/workspaces/schema.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { findViolations, openBrowser, openSignedIn, savePictures } from '../support/browser.ts'
import { createSshKey } from '../support/ssh-key.ts'

let app: TestApp
let browser: Browser
beforeAll(async () => {
  ;[app, browser] = await Promise.all([testApp(), openBrowser()])
}, 60_000)
afterAll(async () => {
  await browser.close()
  await app[Symbol.asyncDispose]()
})

const openSettings = (path: string, key = app.adminKey) =>
  openSignedIn(browser, app.url, { path: `/app/settings/${path}`, key })

describe('settings', () => {
  test('a key is created, shown once and revoked after a second question; the audit log has both', async () => {
    await using opened = await openSettings('keys')
    const { page } = opened
    await page.getByLabel('Name').fill('build server <b>')
    await page.getByLabel('Permission').selectOption('write')
    await page.getByRole('button', { name: 'Create key' }).click()
    const secret = await page.locator('.copy-text code').innerText()
    expect(secret).toMatch(/^assay_[0-9A-Za-z]{38}$/)
    const row = page.getByRole('row').filter({ hasText: 'build server <b>' })
    expect(await row.innerText()).toContain(`…${secret.slice(-4)}`)
    expect(await findViolations(page)).toEqual([])
    await savePictures(page, 'keys')
    await row.getByRole('button', { name: 'Revoke build server <b>' }).click()
    await row.getByRole('button', { name: 'Confirm: Revoke build server <b>' }).click()
    await row.waitFor({ state: 'detached' })
    await page.goto('/app/settings/audit')
    await page.getByRole('cell', { name: 'key.created' }).first().waitFor()
    await page.getByRole('cell', { name: 'key.revoked' }).first().waitFor()
    expect(await findViolations(page)).toEqual([])
    await savePictures(page, 'audit')
    expect(opened.errors).toEqual([])
  })

  test('a credential is stored, never shown again, and deleted', async () => {
    await using opened = await openSettings('credentials')
    const { page } = opened
    await page.getByLabel('Provider').selectOption('model anthropic')
    await page.getByLabel('Name').fill('Team key')
    await page.getByLabel('apiKey').fill('sk-ant-0123456789abcdef')
    await page.getByRole('button', { name: 'Store' }).click()
    const row = page.getByRole('row').filter({ hasText: 'Team key' })
    await row.waitFor()
    expect(await page.content()).not.toContain('0123456789abcdef')
    expect(await findViolations(page)).toEqual([])
    await savePictures(page, 'credentials')
    await page.setViewportSize({ width: 360, height: 740 })
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360)
    await row.getByRole('button', { name: 'Delete Team key' }).click()
    await row.getByRole('button', { name: 'Confirm: Delete Team key' }).click()
    await row.waitFor({ state: 'detached' })
    expect(opened.errors).toEqual([])
  })

  test('a key of several lines is stored, and connects a repository', async () => {
    await using opened = await openSettings('credentials')
    const { page } = opened
    const { privateKey: secret } = createSshKey()
    await page.getByLabel('Provider').selectOption('code-host ssh')
    await page.getByLabel('Name').fill('Deploy key')
    await page.getByLabel('privateKey').fill(secret)
    await page.getByLabel('knownHosts').fill('git.example.org ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJz4')
    expect(await findViolations(page)).toEqual([])
    await page.getByRole('button', { name: 'Store' }).click()
    await page.getByRole('row').filter({ hasText: 'Deploy key' }).waitFor()
    expect(await page.content()).not.toContain(secret.split('\n')[1])
    await page.goto('/app/repos')
    await page.getByLabel('Owner and name').fill('lab/behind-ssh')
    await page.getByLabel('Git address, unless it is on GitHub').fill('git@git.example.org:lab/behind-ssh.git')
    await page.getByLabel('Credential').selectOption({ label: 'Deploy key (ssh)' })
    await page.getByRole('button', { name: 'Connect' }).click()
    await page.getByRole('heading', { name: 'lab/behind-ssh' }).waitFor()
    const { body } = await app.call(readRepository, { params: { owner: 'lab', name: 'behind-ssh' } })
    expect(body.credentialId).toEqual(expect.any(String))
    expect(opened.errors).toEqual([])
  })

  test('a key that may only read sees no control', async () => {
    const { body } = await app.call(createKey, { body: { name: 'reader', permission: 'read' } })
    await using opened = await openSettings('keys', body.key)
    await opened.page.getByRole('cell', { name: 'reader' }).waitFor()
    expect(await opened.page.getByRole('button', { name: /Revoke|Create/ }).count()).toBe(0)
    await opened.page.goto('/app/settings/credentials')
    await opened.page.getByRole('table').waitFor()
    expect(await opened.page.getByRole('button', { name: /Check|Delete|Store/ }).count()).toBe(0)
  })
})
