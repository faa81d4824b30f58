# For fingers that type make. The real front door is ./run, which needs no make.
.PHONY: lab test demo bench docs check
lab test demo bench docs check:
	@./run $@
