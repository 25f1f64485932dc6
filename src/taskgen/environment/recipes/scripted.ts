import { DEPS, present, type RecipeOf, recipe } from './recipe.ts'

/** A gem's own description often reads its version from the sources, so that all of it is a build. */
export const ruby: RecipeOf = (tree, runner) => {
  const isBundled = tree.paths.has('Gemfile')
  const isGem = [...tree.paths].some((path) => /^[^/]+\.gemspec$/.test(path))
  const install = ['bundle install']
  return recipe({
    runner,
    aptPackages: isBundled ? ['build-essential', 'bundler', 'ruby', 'ruby-dev'] : ['ruby', 'ruby-rspec'],
    env: isBundled ? { BUNDLE_PATH: `${DEPS}/bundle`, BUNDLE_APP_CONFIG: `${DEPS}/bundle-settings` } : {},
    manifests: isBundled && !isGem ? present(tree, 'Gemfile', 'Gemfile.lock', '.ruby-version') : [],
    setup: isBundled && !isGem ? install : [],
    build: isBundled && isGem ? install : [],
  })
}

export const php: RecipeOf = (tree, runner) => {
  const isComposed = tree.paths.has('composer.json')
  return recipe({
    runner,
    aptPackages: ['php-cli', 'php-mbstring', 'php-xml', ...(isComposed ? ['composer', 'unzip'] : ['phpunit'])],
    env: isComposed ? { COMPOSER_ALLOW_SUPERUSER: '1', COMPOSER_CACHE_DIR: '/tmp/composer' } : {},
    manifests: isComposed ? present(tree, 'composer.json', 'composer.lock') : [],
    setup: isComposed ? ['composer install --no-interaction --no-scripts --no-autoloader --no-progress'] : [],
    build: isComposed ? ['composer dump-autoload --no-interaction', 'rm -rf /tmp/composer'] : [],
  })
}
