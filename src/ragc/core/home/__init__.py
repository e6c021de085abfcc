"""The files that ragc stores for this user alone: private folders, and the record of writes in progress."""
