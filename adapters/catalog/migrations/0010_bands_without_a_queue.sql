-- Every new document is compared with those before it. An index that queues what is inserted reads its whole queue, up to
-- 4 MB, at each of these comparisons: ten times what the comparison costs.

ALTER INDEX versions_by_band SET (fastupdate = off);
SELECT gin_clean_pending_list('versions_by_band');
