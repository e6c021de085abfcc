"""The status of a study: what its stored records say."""

from ragc.optimizers.status.read import damage, open_study, status, study_trials
from ragc.optimizers.status.record import StudyStatus

__all__ = ["StudyStatus", "damage", "open_study", "status", "study_trials"]
