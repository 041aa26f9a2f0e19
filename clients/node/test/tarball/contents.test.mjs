// The contents of the packed package: its size, its links, its declarations and its source maps.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { fromTools, install, run, tarball } from './help.mjs';

const ts = fromTools('typescript');
const root = fileURLToPath(new URL('../../../..', import.meta.url));
// The folders of the repository whose packages docs.rs shows.
const ON_DOCS_RS = { 'mongo-lease': '.' };
let folder;
let packed;

before(async () => {
  folder = await install('mongodb7');
  packed = join(folder, 'node_modules', 'mongo-lease');
});

test('it has at most 450 kB', () => {
  assert.ok(statSync(tarball).size <= 450_000, `it has ${statSync(tarball).size} bytes`);
});

test('each link of the packed README resolves', () => {
  const links = linksOf(readFileSync(join(packed, 'README.md'), 'utf8'));
  assert.ok(links.length > 10);
  for (const link of links) {
    const [, name, inside = '/README.md', anchor] =
      /^https:\/\/docs\.rs\/crate\/([^/]+)\/latest(?:\/source(\/[^#]+))?(?:#(.*))?$/.exec(link) ??
      [];
    const [path, at] = name ? [join(root, ON_DOCS_RS[name], inside), anchor] : local(link);
    assert.ok(existsSync(path), link);
    if (at !== undefined) assert.ok(anchorsOf(readFileSync(path, 'utf8')).includes(at), link);
  }
});

test("the repository's README is as it was before it was packed", () => {
  const links = linksOf(readFileSync(join(root, 'clients/node/README.md'), 'utf8'));
  assert.ok(links.some((link) => link.startsWith('../../docs/')));
});

test('each source map has its sources beside it, and a stack shows their lines', async () => {
  const dist = join(packed, 'dist');
  const maps = readdirSync(dist).filter((file) => file.endsWith('.map'));
  const sources = maps.flatMap((map) => JSON.parse(readFileSync(join(dist, map), 'utf8')).sources);
  assert.ok(
    maps.some((map) => map === 'manager.js.map') && maps.some((map) => map === 'manager.d.ts.map'),
  );
  sources.forEach((source) => assert.ok(existsSync(resolve(dist, source)), source));
  const refused = "require('mongo-lease').inMemory().manager().tryAcquire('')";
  const program = `${refused}.catch((error) => console.log(error.stack))`;
  const stack = await run(folder, process.execPath, ['--enable-source-maps', '-e', program]);
  assert.match(stack, /mongo-lease\/src\/manager\.ts:\d+/);
});

test('its declarations have what import and require bring, and no more', async () => {
  const print = (names) => `console.log(JSON.stringify(${names}))`;
  const imported = print("Object.keys(await import('mongo-lease')).sort()");
  const required = print("Object.keys(require('mongo-lease')).sort()");
  const names = async (...args) => JSON.parse(await run(folder, process.execPath, args));
  const ofImport = await names('--input-type=module', '-e', imported);
  assert.ok(ofImport.includes('LeaseManager'));
  assert.deepEqual(await names('-e', required), ofImport);
  assert.deepEqual(declaredIn('index.d.mts'), ofImport);
  assert.deepEqual(declaredIn('dist/index.d.ts'), ofImport);
});

test('a path that is not exported is refused', async () => {
  const program = "import('mongo-lease/dist/engine.js').catch((error) => console.log(error.code))";
  assert.equal(
    await run(folder, process.execPath, ['-e', program]),
    'ERR_PACKAGE_PATH_NOT_EXPORTED\n',
  );
});

/** The values that a file of declarations exports. */
function declaredIn(file) {
  const path = join(packed, file);
  const options = {
    module: ts.ModuleKind.Node16,
    moduleResolution: ts.ModuleResolutionKind.Node16,
  };
  const program = ts.createProgram([path], options);
  const checker = program.getTypeChecker();
  const exported = checker.getExportsOfModule(
    checker.getSymbolAtLocation(program.getSourceFile(path)),
  );
  const isValue = (symbol) => {
    const isAlias = symbol.flags & ts.SymbolFlags.Alias;
    const { flags } = isAlias ? checker.getAliasedSymbol(symbol) : symbol;
    return (flags & ts.SymbolFlags.Value) !== 0;
  };
  return exported
    .filter(isValue)
    .map(({ name }) => name)
    .sort();
}

function local(link) {
  const [path, anchor] = link.split('#');
  return [path === '' ? join(packed, 'README.md') : resolve(packed, path), anchor];
}

function linksOf(page) {
  return [...page.matchAll(/\]\(([^)]*)\)/g)].map(([, link]) => link);
}

/** The anchors of a page's headings, as forges and registries make them. */
function anchorsOf(page) {
  const headings = [...page.matchAll(/^#+ (.*)$/gm)].map(([, heading]) => heading);
  return headings.map((heading) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}
