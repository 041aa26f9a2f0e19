// The rules of the linter. Types are checked for the sources alone.

import js from '@eslint/js';
import { defineConfig } from 'eslint/config';
import tseslint from 'typescript-eslint';

// The names that Node has.
const names = [...Object.getOwnPropertyNames(globalThis), 'require', 'module'];
const globals = Object.fromEntries(names.map((name) => [name, 'readonly']));

// What is taken out of an object is not in the rest.
const UNUSED = [
  'error',
  { argsIgnorePattern: '^_', varsIgnorePattern: '^_', ignoreRestSiblings: true },
];

export default defineConfig(
  { ignores: ['dist', 'src/core', '.test', '**/node_modules'] },
  {
    files: ['**/*.{mjs,cjs}'],
    extends: [js.configs.recommended],
    languageOptions: { globals },
    rules: { 'no-unused-vars': UNUSED },
  },
  {
    files: ['src/**/*.ts'],
    extends: [
      js.configs.recommended,
      tseslint.configs.recommendedTypeChecked,
      tseslint.configs.stylisticTypeChecked,
    ],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      '@typescript-eslint/no-empty-function': 'off',
      '@typescript-eslint/no-unused-vars': UNUSED,
      // The core throws a `Fault`, of which an error is made at the end.
      '@typescript-eslint/only-throw-error': 'off',
      '@typescript-eslint/prefer-promise-reject-errors': 'off',
      // The core's arrays of enums are arrays of numbers.
      '@typescript-eslint/no-unsafe-enum-comparison': 'off',
      // A cast from what a caller gives, or the driver has, says that it may be absent all the same.
      '@typescript-eslint/non-nullable-type-assertion-style': 'off',
    },
  },
);
