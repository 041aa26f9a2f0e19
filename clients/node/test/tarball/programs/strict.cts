// The same package for a program in CommonJS.

import { type Db, MongoClient } from 'mongodb';
import { LeaseManager, inMemory } from 'mongo-lease';
import leases = require('mongo-lease');

export function open(client: MongoClient): LeaseManager {
  const db: Db = client.db('billing');
  return new leases.LeaseManager(db);
}

async function main(): Promise<void> {
  const lease = await inMemory().manager().acquire('name');
  console.log(lease instanceof leases.Lease);
}

void main();
